"""The CuPy driver on a fake of CuPy: the order and arguments of its calls, nothing of a GPU."""

import numpy as np
import pytest

from tests.unit.platforms.cuda.driver import fake_cupy
from tests.unit.platforms.cuda.driver.fake_nccl import Library
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.platforms.cuda.driver import condition, cupy_driver
from xladev.platforms.cuda.driver.interface import DriverError, DriverMemoryError


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(cupy_driver, "_import_cupy", lambda: (fake_cupy.make(), ""))
    return cupy_driver.CupyDriver().open(0)


def test_what_the_fake_has_the_module_has():
    cupy = pytest.importorskip("cupy")
    fake = fake_cupy.make().cuda
    for name in vars(fake.runtime):
        assert hasattr(cupy.cuda.runtime, name), name
    for name in set(vars(fake)) - {"runtime"}:
        assert hasattr(cupy.cuda, name), name
    assert {"begin_capture", "end_capture", "wait_event"} <= set(dir(cupy.cuda.Stream))


def test_copies_wait_for_nobody_and_land_with_an_event(device):
    memory, stream = device.allocate(64), device.create_stream()
    data = np.arange(64, dtype=np.uint8)
    found = np.zeros(64, np.uint8)
    stream.copy_to_device(memory.address, data)
    data[:] = 0
    stream.copy_to_host(found, memory.address)
    event = stream.record()
    assert not event.query()
    assert not found.any()
    assert event.synchronize()
    assert np.array_equal(found, np.arange(64))
    assert event.failure() is None


def test_an_earlier_event_lands_no_later_copy(device):
    memory, stream = device.allocate(8), device.create_stream()
    first, second = np.ones(8, np.uint8), np.ones(8, np.uint8)
    stream.copy_to_host(first, memory.address)
    early = stream.record()
    stream.copy_to_host(second, memory.address)
    late = stream.record()
    early.synchronize()
    assert (first.any(), second.any()) == (False, True)
    late.synchronize(1)
    assert not second.any()


def test_large_copies_are_not_staged(device, monkeypatch):
    monkeypatch.setattr("xladev.platforms.cuda.driver.landing.STAGED_NBYTES", 4)
    memory, stream = device.allocate(8), device.create_stream()
    found = np.ones(8, np.uint8)
    stream.copy_to_device(memory.address, np.arange(8, dtype=np.uint8))
    stream.copy_to_host(found, memory.address)
    stream.record().synchronize()
    assert np.array_equal(found, np.arange(8))


def test_a_copy_has_arrived_when_it_returns(device):
    """Streams are not ordered with the default one, where CUDA makes such copies."""
    memory, found = device.allocate(8), np.zeros(8, np.uint8)
    device.copy_to_device(memory.address, np.arange(8, dtype=np.uint8))
    device.copy_to_host(found, memory.address)
    assert np.array_equal(found, np.arange(8))


def test_memory_comes_from_the_pool_and_ends(device):
    memory = device.allocate(100)
    assert memory.address % 256 == 0
    device.free(memory)
    with pytest.raises(DriverError, match="freed"):
        device.free(memory)
    with pytest.raises(DriverMemoryError, match="out of memory"):
        device.allocate(1 << 30)


def test_graphs_are_captured_and_launched(device):
    stream, other = device.create_stream(), device.create_stream()
    kernel = device.load(b"\x7fELF", "k")
    stream.begin_capture()
    stream.launch(kernel, LaunchDimensions(), [1, 2])
    graph = stream.end_capture()
    fake_cupy.calls.clear()
    for _ in range(2):
        other.launch_graph(graph)
    other.record().synchronize()
    assert fake_cupy.calls == [(1, 2), (1, 2)]


def test_branches_are_captured_where_they_wait(device):
    stream = device.create_stream()
    branch, other = stream.branch(), device.create_stream()
    kernel = device.load(b"\x7fELF", "k")
    stream.begin_capture()
    start = stream.mark()
    assert start.event.disable_timing
    branch.wait(start)
    stream.launch(kernel, LaunchDimensions(), [1])
    branch.launch(kernel, LaunchDimensions(), [2])
    stream.wait(branch.mark())
    graph = stream.end_capture()
    fake_cupy.calls.clear()
    other.launch_graph(graph)
    other.record().synchronize()
    assert fake_cupy.calls == [(1,), (2,)]
    branch.launch(kernel, LaunchDimensions(), [3])
    stream.wait(branch.mark())
    stream.record().synchronize()
    assert fake_cupy.calls == [(1,), (2,), (3,)]


def test_ptx_is_loaded_where_the_driver_refuses_machine_code(device, monkeypatch):
    monkeypatch.setattr(cupy_driver, "machine_code", lambda ptx, target: b"\x7fELF too new")
    device.load(b".version 8.6", "k")
    assert fake_cupy.Module.loaded[-1] == b".version 8.6\0"


def test_stamps_are_timed(device):
    stream = device.create_stream()
    first, last = stream.stamp(), stream.stamp()
    assert last.elapsed_ms(first) == 1.5


@pytest.mark.parametrize(
    ("status", "driver", "wanted"),
    [
        (35, None, "driver is not installed"),
        (35, 12040, "the driver is for CUDA 12.4, and CuPy for CUDA 13.2.*cupy-cuda12x"),
        (100, 13000, "sees no GPU.*CUDA_VISIBLE_DEVICES"),
        (2, 13000, "memory is full"),
        (803, 13000, "different versions: reboot"),
        (999, 13000, "CUDA finds no device: text$"),
    ],
)
def test_why_there_is_no_device(status, driver, wanted, monkeypatch):
    fake = fake_cupy.make()

    def refuse():
        raise fake_cupy.CUDARuntimeError(status, "text")

    fake.cuda.runtime.getDeviceCount = refuse
    monkeypatch.setattr(cupy_driver, "_import_cupy", lambda: (fake, ""))
    monkeypatch.setattr(cupy_driver, "driver_version", lambda: driver)
    found = cupy_driver.CupyDriver()
    assert found.device_count() == 0
    with pytest.raises(DriverError, match=wanted):
        found.open(0)
    assert found.version().startswith("CuPy 14.2.0; ")


def test_processes_of_one_machine_share_its_gpus(monkeypatch):
    fake = fake_cupy.make()
    fake.cuda.runtime.getDeviceCount = lambda: 4
    monkeypatch.setattr(cupy_driver, "_import_cupy", lambda: (fake, ""))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("XLADEV_LOCAL_PROCESSES", "2")
    monkeypatch.setenv("XLADEV_LOCAL_PROCESS", "1")
    found = cupy_driver.CupyDriver()
    assert found.device_count() == 2
    assert [found.open(n).ordinal for n in range(2)] == [2, 3]
    with pytest.raises(DriverError):
        found.open(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert cupy_driver.CupyDriver().device_count() == 4


def test_zeros_and_ranks_of_nccl_are_of_the_device_that_is_current(device, monkeypatch):
    fake, entered = fake_cupy.make(), []
    fake.cuda.Device.__enter__ = lambda self: entered.append(self.id)
    fake.cuda.runtime.memsetAsync = lambda *a: entered.append(a)
    monkeypatch.setattr(cupy_driver, "_import_cupy", lambda: (fake, ""))
    library = Library()
    monkeypatch.setattr(cupy_driver, "loaded", lambda name: library)
    driver = cupy_driver.CupyDriver()
    opened = driver.open(0)
    stream, nccl = opened.create_stream(), driver.nccl()
    entered.clear()
    nccl.fill_zeros(opened, 100, 8, stream)
    assert entered == [0, (100, 0, 8, stream.pointer)]
    entered.clear()
    nccl.rank(opened, 2, bytes(128), 1).allGather(1, 2, 3, 1, nccl.stream(stream))
    assert entered == [0, 0]
    assert library.arguments["ncclAllGather"][-1] == stream.pointer


def test_missing_libraries_are_listed(monkeypatch):
    monkeypatch.setattr(cupy_driver, "_import_cupy", lambda: (fake_cupy.make(), ""))
    monkeypatch.setattr(cupy_driver, "missing", lambda name: "gone" * (name == "cufft"))
    line = cupy_driver.CupyDriver().version()
    assert line == "CuPy 14.2.0, driver for CUDA 13.0; missing: cufft (gone)"


def test_the_driver_of_this_machine():
    assert condition.driver_version() is None or condition.driver_version() >= 0
