"""The names of a new backend, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xladev.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST = 40
_OURS = frozenset(("cuda", "pjrt", "xladev", "template", "host"))
"""Distributions `xladev-NAME` of this project, and words that mean something else."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a new backend and its parts are called.

    Attributes:
        platform: its name in programs, device names and the entry point, such as ``my_npu``.
        kind: of its devices.
        vendor: who makes it.
    """

    platform: str
    kind: str
    vendor: str

    @property
    def package(self) -> str:
        """The top-level package, a vendor's own: ``xladev_my_npu``."""
        return f"xladev_{self.platform}"

    @property
    def dashed(self) -> str:
        """As names of distributions are spelled (PEP 503): ``my-npu``."""
        return self.platform.replace("_", "-")

    @property
    def prefix(self) -> str:
        """Of classes: ``MyNpu``."""
        return "".join(word.capitalize() for word in self.platform.split("_"))


def checked_names(platform: str, kind: str, vendor: str, taken: Iterable[str]) -> Names:
    """Names that can be used, and are used by nobody here.

    Args:
        platform: one lower-case word, underscores between its parts.
        kind: of the devices, spelled like a platform.
        vendor: one line.
        taken: platforms that are installed.

    Raises:
        UsageError: a name that cannot be one, or that is taken.
    """
    _check_word("platform name", platform)
    _check_word("kind", kind)
    if platform in _OURS or platform in taken:
        raise UsageError(
            f"the name {platform!r} is taken",
            why="a platform that is installed, or a part of xladev, has it",
            hint="choose another; `xladev devices` lists the platforms that are installed",
        )
    if not vendor.isprintable() or set(vendor) & set("\"\\'<>") or not vendor.strip():
        raise UsageError(
            f"{vendor!r} cannot be the vendor",
            why="it is written into pyproject.toml",
            hint="one line without quotation marks, backslashes or angle brackets",
        )
    return Names(platform, kind, vendor.strip())


def _check_word(what: str, word: str) -> None:
    if _NAME.fullmatch(word) and len(word) <= _LONGEST:
        return
    better = re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_0123456789")[:_LONGEST].strip("_")
    raise UsageError(
        f"{word!r} is no {what}",
        why="it becomes part of a Python package and of a distribution's name: a lower-case "
        f"letter, then letters, digits and single underscores, at most {_LONGEST} in all",
        hint=f"such as {better}" if _NAME.fullmatch(better) else "such as my_npu",
    )
