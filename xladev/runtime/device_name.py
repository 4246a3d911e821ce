"""Device names: one grammar for command line, frontends, attributes and log lines.

    NAME        = PLATFORM_OR_KIND [":" ORDINAL]
    LONG_NAME   = {"/" KEY ":" VALUE} "/device:" ["XLA_"] NAME      (TensorFlow's)

Case does not matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xladev.errors import AbsentDeviceError

_PLAIN = re.compile(r"[a-z][a-z0-9_]*")
_NAME = re.compile(r"(?P<name>[a-z][a-z0-9_]*)(?::(?P<ordinal>\d{1,9}|\*))?")
_LONG = re.compile(
    r"(?P<prefix>(?:/(?:job|replica|task):[a-z0-9_.]+)*)/(?:device:)?(?P<rest>[^/]+)"
)
_HINT = "write cpu, npu:0 or /job:localhost/replica:0/task:0/device:GPU:0"


def is_plain_name(text: object) -> bool:
    """True for a platform or kind name: a lower-case word of letters, digits, underscores."""
    return isinstance(text, str) and _PLAIN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A parsed device name.

    Attributes:
        name: platform name or kind, in lower case.
        ordinal: number of the device; None means any (the first).
    """

    name: str
    ordinal: int | None = None

    def __str__(self) -> str:
        return self.name if self.ordinal is None else f"{self.name}:{self.ordinal}"


def parse_device_name(text: str) -> DeviceName:
    """Parses a device name, short or long.

    Raises:
        AbsentDeviceError: another spelling, or a device of another process.
    """
    if not isinstance(text, str):
        raise AbsentDeviceError(f"{text!r} is no device name", why="a name is text", hint=_HINT)
    rest = text.strip().lower()
    if rest.startswith("/"):
        rest = _parse_long(text, rest)
    match = _NAME.fullmatch(rest)
    if match is None:
        raise AbsentDeviceError(f"{text!r} is no device name", hint=_HINT)
    ordinal = match["ordinal"]
    return DeviceName(match["name"], None if ordinal in (None, "*") else int(ordinal))


def _parse_long(text: str, lower: str) -> str:
    """The short name within a long one."""
    match = _LONG.fullmatch(lower)
    if match is None:
        raise AbsentDeviceError(f"{text!r} is no device name", hint=_HINT)
    for part in filter(None, match["prefix"].split("/")):
        key, _, value = part.partition(":")
        if key in ("replica", "task") and value not in ("0", "*"):
            raise AbsentDeviceError(
                f"{text!r} names a device of another process", why=f"{key} is {value}, not 0"
            )
    return match["rest"].removeprefix("xla_")
