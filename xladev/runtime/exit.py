"""Devices that are open when the process ends are closed, so that drivers hear of it."""

from __future__ import annotations

import atexit
import os
from weakref import WeakSet

from xladev.runtime.device import Device

_open: WeakSet[Device] = WeakSet()
_process = 0
"""The process whose devices they are: a forked child has the objects, and not the devices."""


def closed_at_exit(device: Device) -> Device:
    """The device, which is closed when this process ends, unless it was before."""
    global _process
    if _process != os.getpid():
        _process = os.getpid()
        _open.clear()
        atexit.register(_close_all, _process)
    _open.add(device)
    return device


def _close_all(process: int) -> None:
    if process == os.getpid():
        for device in tuple(_open):
            device.close()
