"""What this machine's GPU wants code for."""

from __future__ import annotations

from functools import cache

from xladev.platforms.cuda.description import DEFAULT_TARGET
from xladev.platforms.cuda.driver.cupy_driver import CupyDriver
from xladev.platforms.cuda.faults import driver_errors


@cache
def machine_target() -> str:
    """The target of the first GPU; Hopper where there is none."""
    driver = CupyDriver()
    if not driver.device_count():
        return DEFAULT_TARGET
    with driver_errors("cuda:0"):
        return driver.open(0).properties.target
