"""Errors of the driver interface as errors of the SDK, which say what to do next."""

from __future__ import annotations

from types import TracebackType

from xladev.errors import DeviceError, OutOfMemoryError
from xladev.platforms.cuda.driver.interface import DriverError, DriverMemoryError


class driver_errors:
    """Turns what a driver raises inside the block into an error of the SDK.

    A class, since a launch passes through several: a generator would take three times as long.

    Args:
        where: the device or what is called, for messages.

    Raises:
        OutOfMemoryError: memory that does not fit; the SDK then waits and tries again.
        DeviceError: anything else.
    """

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, DriverError):
            return
        if isinstance(error, DriverMemoryError):
            what = "the device's memory is full"
            raise OutOfMemoryError(what, where=self._where, why=str(error)) from error
        what = "the CUDA driver refused a call"
        raise DeviceError(what, where=self._where, why=str(error)) from error
