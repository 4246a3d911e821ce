"""Why CUDA has no device, in a line that says what to do."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import MappingProxyType

_HINTS: Mapping[int, str] = MappingProxyType(
    {
        2: "the GPU's memory is full: another program holds it (nvidia-smi shows which)",
        3: "CUDA was initialised before a fork: use the start method spawn",
        46: "every GPU is held exclusively, or prohibited, by its compute mode",
        100: "the driver sees no GPU: is one there, and does CUDA_VISIBLE_DEVICES name it?",
        101: "CUDA_VISIBLE_DEVICES names a GPU that is not there",
        802: "the system is not ready: on machines with NVSwitch nvidia-fabricmanager must run",
        803: "the driver's library and its kernel module are of different versions: reboot",
        804: "the driver's compatibility package does not support this GPU",
    }
)
"""What runtime errors mean, by number."""
INSUFFICIENT_DRIVER = 35


def driver_version() -> int | None:
    """CUDA's version that NVIDIA's driver is for, such as 13000; None without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    found = ctypes.c_int()
    return found.value if library.cuDriverGetVersion(ctypes.byref(found)) == 0 else 0


def no_device(status: int, message: str, driver: int | None, runtime: int) -> str:
    """Why there is no device.

    Args:
        status: number of the runtime's error.
        message: its text.
        driver: from `driver_version`.
        runtime: version of the runtime that CuPy is built for, such as 13000.
    """
    if driver is None:
        return "NVIDIA's driver is not installed: there is no libcuda.so.1"
    if status == INSUFFICIENT_DRIVER and driver < runtime:
        major = driver // 1000
        return (
            f"the driver is for CUDA {_spelt(driver)}, and CuPy for CUDA {_spelt(runtime)}: update "
            f"the driver, or install cupy-cuda{major}x instead"
        )
    hint = _HINTS.get(status)
    return f"CUDA finds no device: {message}{f'; {hint}' if hint else ''}"


def _spelt(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
