"""Errors of the driver interface as errors of the SDK, which say what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xladev.errors import DeviceError, OutOfMemoryError
from xladev.platforms.cuda.driver.interface import DriverError, DriverMemoryError


@contextmanager
def driver_errors(where: str) -> Iterator[None]:
    """Turns what a driver raises into an error of the SDK.

    Raises:
        OutOfMemoryError: memory that does not fit; the SDK then waits and tries again.
        DeviceError: anything else.
    """
    try:
        yield
    except DriverMemoryError as e:
        raise OutOfMemoryError("the device's memory is full", where=where, why=str(e)) from e
    except DriverError as e:
        raise DeviceError("the CUDA driver refused a call", where=where, why=str(e)) from e
