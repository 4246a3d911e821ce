"""The emulated driver: order by events alone, accesses checked, memory that is known as freed."""

import numpy as np
import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt import primitives
from xladev.codegen.simt.emulation import host_code
from xladev.codegen.simt.emulation.bounds import with_bounds_checks
from xladev.codegen.simt.emulation.host_threads import host_text
from xladev.codegen.simt.kernel import emit_thread_function
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.errors import CompileError, FormatError
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.driver.emulated import MEMORY_NBYTES, EmulatedDriver
from xladev.platforms.cuda.driver.interface import DriverError, DriverMemoryError

NEGATE = """
ENTRY e {
  x = f32[1000] parameter(0)
  ROOT r = f32[1000] negate(x)
}"""
N = 4000


def image(edit=lambda text: text):
    """The image of NEGATE, its neutral text edited before the host's part is added."""
    thread = emit_thread_function(
        KernelSpec("negate", parse_module(NEGATE).entry), nvptx.emulated_target()
    )
    text = edit(host_text(thread, nvptx.emulated_target()))
    return host_code.host_image("negate", text, thread.nbytes), thread.dimensions


class Machine:
    """One emulated device with two arrays, the first of them filled."""

    def __init__(self, seed: int = 0) -> None:
        self.device = EmulatedDriver(seed).open(0)
        self.x, self.y = self.device.allocate(N), self.device.allocate(N)
        self.data = np.arange(N // 4, dtype=np.float32)
        self.device.copy_to_device(self.x.address, self.data.view(np.uint8))

    def result(self) -> np.ndarray:
        found = np.empty(N, np.uint8)
        self.device.copy_to_host(found, self.y.address)
        return found.view(np.float32)


def test_a_kernel_runs_when_somebody_waits():
    m = Machine()
    code, dimensions = image()
    stream, kernel = m.device.create_stream(), m.device.load(code, "negate")
    stream.launch(kernel, dimensions, [m.x.address, m.y.address])
    event = stream.record()
    assert not np.array_equal(m.result(), -m.data)
    assert event.synchronize()
    assert event.failure() is None
    assert np.array_equal(m.result(), -m.data)


def test_an_access_out_of_bounds_is_reported_with_its_thread_and_harms_nothing():
    m = Machine()
    code, dimensions = image(lambda text: text.replace("i64 4000, i64 1)", "i64 3996, i64 1)"))
    stream = m.device.create_stream()
    stream.launch(m.device.load(code, "negate"), dimensions, [m.x.address, m.y.address])
    event = stream.record()
    event.synchronize()
    assert "thread 249 of block 0: 16 bytes at offset 3984 of array 1" in str(event.failure())
    assert np.array_equal(m.result()[:996], -m.data[:996])


def test_an_access_that_belongs_to_no_array_is_not_compiled():
    head = f"define internal void @{primitives.THREAD}(ptr %simt) {{"
    text = f"{head}\n  store i8 0, ptr %x, align 1\n}}"
    with pytest.raises(CompileError, match="no array"):
        with_bounds_checks(text, ["p0"], [4])


def overlapped(seed: int, *, waits: bool) -> bool:
    """Two streams, one writing what the other reads; whether the result is right."""
    m = Machine(seed)
    code, dimensions = image()
    kernel = m.device.load(code, "negate")
    middle = m.device.allocate(N)
    first, second = m.device.create_stream(), m.device.create_stream()
    first.launch(kernel, dimensions, [m.x.address, middle.address])
    done = first.record()
    if waits:
        second.wait(done)
    second.launch(kernel, dimensions, [middle.address, m.y.address])
    for event in (second.record(), done):
        event.synchronize()
    return np.array_equal(m.result(), m.data)


def test_a_missing_wait_shows():
    assert all(overlapped(seed, waits=True) for seed in range(12))
    assert not all(overlapped(seed, waits=False) for seed in range(12))


def test_streams_that_wait_for_nobody_are_reported():
    m = Machine()
    other = EmulatedDriver(1).open(0).create_stream().record()
    stream = m.device.create_stream()
    stream.wait(other)
    with pytest.raises(DriverError, match="nobody will reach"):
        stream.record().synchronize()


def test_freed_memory_is_known():
    m = Machine()
    stream = m.device.create_stream()
    stream.copy(m.y.address, m.x.address, N)
    m.device.free(m.x)
    event = stream.record()
    event.synchronize()
    assert "no live allocation" in str(event.failure())
    with pytest.raises(DriverError, match="freed"):
        m.device.free(m.x)


def test_memory_ends():
    device = EmulatedDriver(0).open(0)
    with pytest.raises(DriverMemoryError, match="do not fit"):
        device.allocate(MEMORY_NBYTES + 1)


def test_another_number_of_arrays_is_refused():
    m = Machine()
    code, _ = image()
    with pytest.raises(DriverError, match="takes 2 arrays"):
        m.device.create_stream().launch(m.device.load(code, "n"), LaunchDimensions(), [0])


def test_foreign_images_are_refused():
    with pytest.raises(FormatError):
        EmulatedDriver(0).open(0).load(b"no image", "k")


def test_events_measure_host_time():
    stream = Machine().device.create_stream()
    first, last = stream.record(), stream.record()
    last.synchronize()
    assert last.elapsed_ms(first) >= 0
