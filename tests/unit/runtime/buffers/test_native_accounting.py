"""Counts of what native code hands out are part of what the allocator says."""

from __future__ import annotations

import gc

from tests.unit.runtime.null_device import Driver, null_device
from xladev.runtime.buffers.native_accounting import COUNT, IN_USE, PEAK, TOTAL, NativeAccounting
from xladev.runtime.memory import MemoryStats


def enter(allocator, accounting: NativeAccounting, index: int) -> None:
    """What native code does when it hands out a buffer."""
    accounting.counts[index] += 1
    words = allocator.account.words
    words[IN_USE] += accounting.sizes[index]
    words[PEAK] = max(words[PEAK], words[IN_USE] + words[5])
    words[COUNT] += 1
    words[TOTAL] += 1


def test_ledgers_are_counted_with_what_was_allocated():
    device = null_device(Driver(), tier=2)
    allocator = device.allocator
    accounting = NativeAccounting(["a", "b"], [10, 100], None)
    allocator.register(accounting)
    kept = device.allocate_nbytes(64, "a")
    enter(allocator, accounting, 0)
    enter(allocator, accounting, 1)
    enter(allocator, accounting, 1)
    assert allocator.stats() == MemoryStats(274, 274, 4, 4)
    assert allocator.live() == {"b": 200, "a": 74}
    more = device.allocate_nbytes(64, "c")
    assert allocator.stats().peak_nbytes == 338
    del kept, more
    assert allocator.stats() == MemoryStats(210, 338, 3, 5)


def test_a_reset_forgets_them():
    device = null_device(Driver(), tier=2)
    allocator = device.allocator
    accounting = NativeAccounting(["a"], [10], None)
    allocator.register(accounting)
    enter(allocator, accounting, 0)
    allocator.forget_all()
    assert allocator.stats() == MemoryStats(0, 10, 0, 1)
    assert allocator.live() == {}
    assert allocator.account.words[4] == allocator.generation


def test_ledgers_that_nobody_keeps_are_forgotten():
    device = null_device(Driver(), tier=2)
    device.allocator.register(NativeAccounting(["a"], [10], None))
    gc.collect()
    assert device.allocator.live() == {}


def test_a_device_is_clear_while_open_idle_and_not_lost():
    driver = Driver()
    device = null_device(driver, tier=4)
    assert device.clear[0] == 1
    driver.gate.clear()
    from xladev.runtime.array import put

    there = put(device, [1.0])
    assert there.is_ready()
    driver.gate.set()
    device.synchronize()
    assert device.clear[0] == 1
    device.close()
    assert device.clear[0] == 0
