"""On a GPU: programs by generated kernels, streams and events. One command: pytest tests/gpu."""

import numpy as np
import pytest

from tests.tools.plugins import emulated_cuda
from tests.unit.platforms.cuda.behaviour.test_programs import PROGRAMS
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.driver.cupy_driver import CupyDriver
from xladev.runtime.registry import current_registry
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

pytestmark = pytest.mark.skipif(
    CupyDriver().device_count() == 0, reason=f"no GPU: {CupyDriver().version()}"
)


@pytest.fixture(scope="module")
def device():
    """The first GPU, in a registry that has the platform whether or not it is installed."""
    with emulated_cuda():
        yield current_registry().device("cuda")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, device):
    module = parse_module(PROGRAMS[name])
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, random_arguments(module, 0), "cuda", strict) is None


def test_copies_and_events(device):
    executor = device.executor
    data = np.arange(1 << 20, dtype=np.uint8)
    first, second = (executor.allocate(data.nbytes, alignment=256, memory_space=0) for _ in "ab")
    found = np.zeros_like(data)
    upload, download = executor.create_stream(), executor.create_stream()
    upload.copy(first, data)
    upload.copy(second, first)
    download.wait(upload.record())
    download.copy(found, second)
    event = download.record()
    assert event.wait(10)
    assert event.error() is None
    assert np.array_equal(found, data)
    for memory in (first, second):
        executor.deallocate(memory)


def test_events_measure_kernels(device):
    driver = device.executor.device
    stream = driver.create_stream()
    memory = driver.allocate(1 << 26)
    before = stream.record()
    stream.copy(memory.address + (1 << 25), memory.address, 1 << 25)
    after = stream.record()
    after.synchronize()
    assert 0 < after.elapsed_ms(before) < 100
    driver.free(memory)
