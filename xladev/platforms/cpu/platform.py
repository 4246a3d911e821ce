"""The CPU platform: one device, or as many virtual ones as ``XLADEV_CPU_DEVICES`` says."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite

from xladev.platforms.cpu.executor import CpuExecutor
from xladev.platforms.cpu.lapack.found import NoLapack, found_lapack
from xladev.runtime.executor import Executor
from xladev.runtime.platform import Platform
from xladev.runtime.virtual_devices import provided_device_count, virtual_device_count


class CpuPlatform(Platform):
    """This machine's processors; virtual devices share them and its memory."""

    def visible_device_count(self) -> int:
        """Number of virtual devices.

        Raises:
            OptionError: the variable holds no number from 1 to 1024.
        """
        return virtual_device_count("cpu")

    def provide_devices(self, count: int) -> int:
        """As many virtual devices as a program wants, unless the variable fixes their number."""
        return provided_device_count("cpu", count)

    def create_executor(self, ordinal: int) -> Executor:
        """One virtual device."""
        return CpuExecutor(ordinal)

    def version(self) -> str:
        """Version of the code generator."""
        return f"llvmlite {llvmlite.__version__}"

    def libraries(self) -> Sequence[str]:
        """LAPACK, or why programs do without."""
        found = found_lapack()
        lapack = f"none, {found.reason}" if isinstance(found, NoLapack) else found.name
        return (f"LAPACK: {lapack}",)
