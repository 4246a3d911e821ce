"""Allocator: counting, giving back from garbage collection, running out."""

import gc
import logging
import sys
import threading

import pytest

from tests.unit.runtime.null_device import Driver, Executor1, Executor5
from xladev.compiler.description import DeviceDescription
from xladev.errors import OutOfMemoryError
from xladev.hlo.dtype import F32
from xladev.hlo.shape import Layout, Shape
from xladev.runtime.buffers.allocator import AllocatedBuffer, Allocator
from xladev.runtime.device import Device
from xladev.runtime.memory import MemoryStats


@pytest.fixture
def driver():
    return Driver(capacity=1000)


@pytest.fixture
def allocator(driver):
    return Allocator(Executor1(driver), "null:0", lambda: None)


def take(allocator, nbytes, label="x"):
    return allocator.allocate(nbytes, label, alignment=1, memory_space=0)


def test_statistics(allocator):
    a, b = take(allocator, 100), take(allocator, 50, "y")
    assert allocator.stats() == MemoryStats(150, 150, 2, 2)
    assert allocator.live() == {"x": 100, "y": 50}
    del a
    assert allocator.stats() == MemoryStats(50, 150, 1, 2)
    del b
    assert allocator.stats() == MemoryStats(0, 150, 0, 2)
    assert allocator.live() == {}


def test_nothing_of_zero_bytes_reaches_the_platform(allocator, driver):
    kept = take(allocator, 0)
    assert kept.memory.nbytes == 1
    assert driver.used == 1


def test_running_out_names_the_largest_buffers(allocator):
    kept = [take(allocator, 100, f"layer {i}") for i in range(9)] + [take(allocator, 50, "bias")]
    with pytest.raises(OutOfMemoryError) as info:
        take(allocator, 100, "activations")
    error = info.value
    assert error.what == "cannot allocate 100 bytes for activations"
    assert "950 bytes are in use: 100 bytes layer 0; " in error.why
    assert error.why.endswith("and 2 more")
    assert len(kept) == 10


def test_room_is_made_once(driver):
    kept = []
    calls = []

    def make_room():
        calls.append(1)
        kept.clear()

    allocator = Allocator(Executor1(driver), "null:0", make_room)
    kept.append(take(allocator, 900))
    assert take(allocator, 900).memory.nbytes == 900
    with pytest.raises(OutOfMemoryError):
        take(allocator, 2000)
    assert len(calls) == 2


def test_a_memory_error_of_the_plugin_is_out_of_memory(allocator, driver):
    driver.fail("allocate", MemoryError("python"), MemoryError("python"))
    with pytest.raises(OutOfMemoryError, match="cannot allocate 8 bytes"):
        take(allocator, 8)
    assert take(allocator, 8).memory.nbytes == 8


def test_garbage_collection_calls_no_plugin(allocator, driver):
    kept = take(allocator, 10)
    del kept
    gc.collect()
    assert "deallocate" not in driver.calls
    allocator.give_back()
    assert driver.calls[-1] == "deallocate"


def test_garbage_collected_in_the_middle_of_allocate_is_given_back_later(driver):
    """A cycle holding a buffer is collected while the plugin allocates under its own lock."""

    class Locked(Executor1):
        lock = threading.Lock()

        def allocate(self, nbytes, **kwargs):
            with self.lock:
                gc.collect()
                return super().allocate(nbytes, **kwargs)

        def deallocate(self, memory):
            assert self.lock.acquire(blocking=False), "deallocate within allocate"
            self.lock.release()
            super().deallocate(memory)

    allocator = Allocator(Locked(driver), "null:0", lambda: None)
    cycle = [take(allocator, 100)]
    cycle.append(cycle)
    del cycle
    kept = take(allocator, 10)
    assert allocator.stats().allocations == 1
    assert driver.used == kept.memory.nbytes


def test_a_raising_deallocate_is_logged_and_harms_nobody(allocator, driver, caplog):
    caplog.set_level(logging.ERROR, "xladev.runtime")
    kept = take(allocator, 10)
    driver.fail("deallocate", ValueError("double free"))
    del kept
    allocator.give_back()
    assert "null:0" in caplog.text
    assert "double free" in caplog.text
    assert take(allocator, 10).memory.nbytes == 10


def test_threads(allocator, driver):
    def work():
        for i in range(200):
            kept = [take(allocator, 1 + i % 7) for _ in range(3)]
            del kept

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert allocator.stats().allocations == 0
    assert driver.memory == {}
    assert driver.calls.count("deallocate") == 8 * 200 * 3


def test_a_reset_disowns_everything(allocator, driver):
    before = take(allocator, 10)
    allocator.forget_all()
    after = take(allocator, 10)
    assert before.is_gone
    assert not after.is_gone
    del before
    assert "deallocate" not in driver.calls
    assert allocator.stats().allocations == 1


def test_the_platforms_own_statistics_win(driver):
    device = Device("null", "null", 0, Executor5(driver), DeviceDescription())
    assert device.memory_stats().nbytes_limit == 1000


def test_shapes_are_allocated_with_their_padding(driver):
    device = Device("null", "null", 0, Executor1(driver), DeviceDescription())
    shape = Shape(F32, (3, 5), Layout((1, 0), tail_padding_alignment=1))
    assert device.allocate(shape, "x").memory.nbytes == 60


def test_a_buffer_that_ctrl_c_ended_on_its_way_says_nothing(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    AllocatedBuffer.__new__(AllocatedBuffer)
    gc.collect()
    assert told == []
