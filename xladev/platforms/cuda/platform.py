"""The platforms ``cuda`` and ``cuda_emu``: one backend over two drivers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from xladev.errors import AbsentDeviceError
from xladev.instrument import logger
from xladev.platforms.cuda.communicator import CudaCommunicator
from xladev.platforms.cuda.driver.cupy_driver import CupyDriver
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import Driver, DriverError
from xladev.platforms.cuda.executor import CudaExecutor
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.process_communicator import process_communicator
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Communicator
from xladev.runtime.distributed.process_communicator import ProcessCommunicator
from xladev.runtime.executor import Executor
from xladev.runtime.platform import Platform
from xladev.runtime.virtual_devices import provided_device_count, virtual_device_count

_log = logger("runtime")


def _communicator(driver: Driver, devices: Sequence[Executor]) -> Communicator:
    opened = [d.device for d in devices if isinstance(d, CudaExecutor)]
    try:
        group = driver.group(opened)
    except DriverError as e:
        _log.warning("collectives of CUDA devices go through host memory: %s", e)
        return HostCommunicator(devices)
    return CudaCommunicator(devices, group)


class CudaPlatform(Platform):
    """The GPUs of this machine."""

    def __init__(self) -> None:
        self._driver = CupyDriver()

    def visible_device_count(self) -> int:
        """What the driver says; 0 without driver or CuPy."""
        return self._driver.device_count()

    def provide_devices(self, count: int) -> int:
        """The GPUs that there are.

        Raises:
            AbsentDeviceError: there is none; says why.
        """
        found = self._driver.device_count()
        if not found:
            raise AbsentDeviceError(
                "there is no CUDA device",
                where="platform 'cuda'",
                why=self._driver.version(),
                hint="platform cuda_emu runs the same kernels without a GPU",
            )
        return found

    def create_executor(self, ordinal: int) -> Executor:
        """Opens a GPU."""
        with driver_errors(f"cuda:{ordinal}"):
            return CudaExecutor(self._driver.open(ordinal), f"cuda:{ordinal}")

    def create_communicator(self, devices: Sequence[Executor]) -> Communicator:
        """NCCL; through host memory where it is missing, or refuses the devices."""
        return _communicator(self._driver, devices)

    def create_process_communicator(
        self, devices: Sequence[Executor], through_host: ProcessCommunicator
    ) -> Communicator:
        """NCCL between processes; through host memory where one of them has none."""
        return process_communicator(self._driver, devices, through_host)

    def version(self) -> str:
        """Of CuPy and the driver; or why there is no device."""
        return self._driver.version()


class CudaEmulationPlatform(Platform):
    """Emulated GPUs: none is visible before somebody asks for one by name."""

    def __init__(self) -> None:
        self._driver = EmulatedDriver()

    def visible_device_count(self) -> int:
        """None, unless asked for: by `provide_devices`, or by ``XLADEV_CUDA_EMU_DEVICES``."""
        if "XLADEV_CUDA_EMU_DEVICES" in os.environ:
            return self._driver.provide(virtual_device_count("cuda_emu"))
        return self._driver.device_count()

    def provide_devices(self, count: int) -> int:
        """As many as a program wants, unless the variable fixes their number."""
        return self._driver.provide(provided_device_count("cuda_emu", count))

    def create_executor(self, ordinal: int) -> Executor:
        """One emulated GPU."""
        return CudaExecutor(self._driver.open(ordinal), f"cuda_emu:{ordinal}")

    def create_communicator(self, devices: Sequence[Executor]) -> Communicator:
        """Emulated NCCL."""
        return _communicator(self._driver, devices)

    def create_process_communicator(
        self, devices: Sequence[Executor], through_host: ProcessCommunicator
    ) -> Communicator:
        """Emulated NCCL between processes."""
        return process_communicator(self._driver, devices, through_host)

    def version(self) -> str:
        """That it is emulated."""
        return self._driver.version()
