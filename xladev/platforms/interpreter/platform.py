"""The interpreter's devices: as many as `XLADEV_INTERPRETER_DEVICES` says, all in host memory."""

from __future__ import annotations

from xladev.platforms.interpreter.executor import InterpreterExecutor
from xladev.runtime.executor import Executor
from xladev.runtime.platform import Platform
from xladev.runtime.virtual_devices import provided_device_count, virtual_device_count


class InterpreterPlatform(Platform):
    """Virtual devices that evaluate programs in NumPy."""

    def visible_device_count(self) -> int:
        """The number asked for, or 1."""
        return virtual_device_count("interpreter")

    def provide_devices(self, count: int) -> int:
        """As many as a program wants, unless `XLADEV_INTERPRETER_DEVICES` fixes their number."""
        return provided_device_count("interpreter", count)

    def create_executor(self, ordinal: int) -> Executor:
        """A device with memory of its own."""
        return InterpreterExecutor()
