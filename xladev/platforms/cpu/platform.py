"""The CPU platform: one device, or as many virtual ones as ``XLADEV_CPU_DEVICES`` says."""

from __future__ import annotations

import os

import llvmlite

from xladev.errors import OptionError
from xladev.platforms.cpu.executor import CpuExecutor
from xladev.runtime.executor import Executor
from xladev.runtime.platform import Platform

DEVICES_VARIABLE = "XLADEV_CPU_DEVICES"
MAX_DEVICES = 1024


class CpuPlatform(Platform):
    """This machine's processors; virtual devices share them and its memory."""

    def visible_device_count(self) -> int:
        """Number of virtual devices.

        Raises:
            OptionError: the variable holds no number from 1 to 1024.
        """
        text = os.environ.get(DEVICES_VARIABLE, "1")
        if not text.isdigit() or not 1 <= int(text) <= MAX_DEVICES:
            raise OptionError(
                f"{DEVICES_VARIABLE}={text!r} is no number of devices",
                why=f"it takes 1 to {MAX_DEVICES}",
            )
        return int(text)

    def create_executor(self, ordinal: int) -> Executor:
        """One virtual device."""
        return CpuExecutor(ordinal)

    def version(self) -> str:
        """Version of the code generator."""
        return f"llvmlite {llvmlite.__version__}"
