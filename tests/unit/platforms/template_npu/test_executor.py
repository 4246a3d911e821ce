"""The executor: driver codes as errors of the SDK, closing, and copies between devices."""

import numpy as np
import pytest

from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import DeviceError, ExecutionError, OutOfMemoryError
from xladev.platforms.template_npu.device.core import DRAM_NBYTES
from xladev.platforms.template_npu.platform import TemplateNpuPlatform
from xladev.runtime.stream import SynchronousStream


@pytest.fixture
def executors():
    platform = TemplateNpuPlatform()
    opened = [platform.create_executor(n) for n in range(2)]
    yield opened
    for executor in opened:
        executor.close()


def memory(executor, nbytes=64):
    return executor.allocate(nbytes, alignment=64, memory_space=0)


def test_what_does_not_fit_is_out_of_memory(executors):
    with pytest.raises(OutOfMemoryError, match="do not fit"):
        memory(executors[0], DRAM_NBYTES + 1)
    assert executors[0].memory_stats().allocations == 0


def test_a_bad_copy_names_the_device(executors):
    with pytest.raises(DeviceError, match="npu:1"):
        executors[1].copy_to_host(np.empty(DRAM_NBYTES, np.uint8), memory(executors[1]))


def test_closing_twice_is_closing(executors):
    executors[0].close()
    executors[0].close()
    with pytest.raises(DeviceError, match="no device"):
        memory(executors[0])


def test_streams_copy_between_devices_in_order(executors):
    ends = [memory(e) for e in executors]
    source, found = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    first, second = (e.create_stream() for e in executors)
    first.copy(ends[0], source)
    second.wait(first.record())
    second.copy(ends[1], ends[0])
    second.copy(found[16:], ends[1].slice(16, 48))
    event = second.record()
    assert event.wait(10)
    assert event.error() is None
    assert found.tolist() == [0] * 16 + list(range(16, 64))


def test_a_stream_of_another_platform_is_refused(executors):
    kernel = executors[0].load_kernel(KernelCode("k", b""))
    with pytest.raises(ExecutionError, match="another platform"):
        executors[0].launch_kernel(SynchronousStream(), kernel, (), LaunchDimensions())


def test_more_devices_can_be_simulated():
    platform = TemplateNpuPlatform()
    assert platform.provide_devices(4) >= 4
    assert platform.visible_device_count() >= 4
    platform.create_executor(3).close()
