"""The interpreter's devices: as many as `XLADEV_INTERPRETER_DEVICES` says, all in host memory."""

from __future__ import annotations

from xladev.platforms.interpreter.executor import InterpreterExecutor
from xladev.runtime.executor import Executor
from xladev.runtime.platform import Platform
from xladev.runtime.virtual_devices import virtual_device_count


class InterpreterPlatform(Platform):
    """Virtual devices that evaluate programs in NumPy."""

    def visible_device_count(self) -> int:
        """The number asked for, or 1."""
        return virtual_device_count("interpreter")

    def create_executor(self, ordinal: int) -> Executor:
        """A device with memory of its own."""
        return InterpreterExecutor()
