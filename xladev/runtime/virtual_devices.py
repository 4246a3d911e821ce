"""How many virtual devices a host platform offers: `XLADEV_<PLATFORM>_DEVICES`, by default 1."""

from __future__ import annotations

import os

from xladev.errors import OptionError

MAX_VIRTUAL_DEVICES = 1024


def provided_device_count(platform: str, wanted: int) -> int:
    """The number of devices after a program asked for some: all it wants, unless it was fixed.

    Raises:
        OptionError: see `virtual_device_count`.
    """
    count = virtual_device_count(platform)
    return count if is_fixed(platform) else max(count, min(wanted, MAX_VIRTUAL_DEVICES))


def is_fixed(platform: str) -> bool:
    """True if `XLADEV_<PLATFORM>_DEVICES` says how many devices there are."""
    return f"XLADEV_{platform.upper()}_DEVICES" in os.environ


def virtual_device_count(platform: str) -> int:
    """The number of devices asked for by `XLADEV_<PLATFORM>_DEVICES`, such as XLADEV_CPU_DEVICES.

    Raises:
        OptionError: the variable is no number from 1 to 1024.
    """
    variable = f"XLADEV_{platform.upper()}_DEVICES"
    text = os.environ.get(variable, "1")
    if text.isdecimal() and 1 <= int(text) <= MAX_VIRTUAL_DEVICES:
        return int(text)
    raise OptionError(
        f"{variable} is {text!r}", why=f"it must be a number from 1 to {MAX_VIRTUAL_DEVICES}"
    )
