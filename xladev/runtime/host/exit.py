"""Devices that are open when the process ends are closed, so that drivers hear of it.

Plugins release handles by `weakref.finalize`, whose finalizers run at exit too. They must run
later: pending work is waited for by those very handles.
"""

from __future__ import annotations

import atexit
import os
from weakref import WeakSet, finalize

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
        finalize(device, int).detach()  # the first one registers them all with atexit
        atexit.register(_close_all, _process)  # what is registered last runs first
    _open.add(device)
    return device


def open_devices() -> tuple[Device, ...]:
    """The devices that this process has opened and not closed."""
    return tuple(d for d in _open if not d.is_closed) if _process == os.getpid() else ()


def _close_all(process: int) -> None:
    if process == os.getpid():
        for device in tuple(_open):
            device.close()
