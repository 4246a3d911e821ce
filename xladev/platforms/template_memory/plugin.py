"""A whole backend of tier 1, Memory: seven functions, of which the executor's four move bytes."""

from xladev.runtime.executor import Executor
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.runtime.platform import Platform


class TemplateMemoryExecutor(Executor):
    """One device. Its memory is a bytearray for each allocation; yours is what a driver gives."""

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        return DeviceMemory(self, bytearray(nbytes), 0, nbytes)

    def deallocate(self, memory: DeviceMemory) -> None:
        memory.handle.clear()

    def copy_to_device(self, destination: DeviceMemory, source: HostBytes) -> None:
        memoryview(destination.handle)[destination.offset :][: destination.nbytes] = source.data

    def copy_to_host(self, destination: HostBytes, source: DeviceMemory) -> None:
        destination.data[:] = memoryview(source.handle)[source.offset :][: source.nbytes]


class TemplateMemoryPlatform(Platform):
    """The devices of this machine. Yours asks its driver."""

    def visible_device_count(self) -> int:
        return 1

    def create_executor(self, ordinal: int) -> Executor:
        return TemplateMemoryExecutor()


@hookimpl
def xladev_platforms() -> PlatformSpec:
    return PlatformSpec("template_memory", TemplateMemoryPlatform, kind="npu", priority=20)
