"""The platform: counts the devices and opens them.

What a vendor replaces: the two driver calls.
"""

from __future__ import annotations

from xladev.platforms.template_npu.driver import library as npu
from xladev.platforms.template_npu.executor import TemplateNpuExecutor
from xladev.runtime.executor import Executor
from xladev.runtime.platform import Platform


class TemplateNpuPlatform(Platform):
    """The simulated accelerators of this process."""

    def visible_device_count(self) -> int:
        """What the driver says."""
        return npu.npu_device_count()

    def provide_devices(self, count: int) -> int:
        """As many as are wanted: they are simulated. A vendor leaves this out."""
        return npu.npu_simulate_devices(count)

    def create_executor(self, ordinal: int) -> Executor:
        """Opens a device."""
        return TemplateNpuExecutor(ordinal)

    def version(self) -> str:
        """Version of the driver."""
        return f"template driver {npu.DRIVER_VERSION}"
