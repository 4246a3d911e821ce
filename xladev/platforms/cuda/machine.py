"""What this machine's GPU wants code for, and what its libraries take."""

from __future__ import annotations

from functools import cache

from xladev.platforms.cuda.description import DEFAULT_TARGET
from xladev.platforms.cuda.driver.cupy_driver import CupyDriver
from xladev.platforms.cuda.driver.interface import DriverDevice
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.libraries.calls import LibraryCall


@cache
def _device() -> DriverDevice | None:
    """The first GPU; None where there is none."""
    driver = CupyDriver()
    if not driver.device_count():
        return None
    with driver_errors("cuda:0"):
        return driver.open(0)


def machine_target() -> str:
    """The target of the first GPU; Hopper where there is none."""
    device = _device()
    return DEFAULT_TARGET if device is None else device.properties.target


@cache
def machine_refusal(call: LibraryCall) -> str:
    """Why the first GPU's libraries refuse a call; empty if they take it, or there is no GPU."""
    device = _device()
    return "" if device is None else device.libraries.refusal(call)


@cache
def machine_state() -> str:
    """The GPU and the library that `machine_refusal` asks; empty where there is none."""
    device = _device()
    if device is None:
        return ""
    return f"{device.properties.name} {device.libraries.convolution_version()}"
