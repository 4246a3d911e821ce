"""What could corrupt memory behind the fast call: who sees what, when, and who frees it."""

from __future__ import annotations

import copy
import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.fast_call.samples import (
    ADD,
    FIVE_TO_THREE,
    IN_PLACE,
    X,
    Y,
    opened,
    went_through,
)
from xladev.runtime import array as array_module


def test_closed_devices_keep_no_memory(registry):
    program = opened(ADD, X, Y)
    pool = program.devices[0].executor._pool
    results = [program(X, Y) for _ in range(3)]
    del results[0]
    assert pool.kept_nbytes
    registry.close()
    assert pool.kept_nbytes == 0
    del results
    assert pool.kept_nbytes == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["strides", "state"])
def test_what_becomes_of_one_value_read_does_not_touch_the_next(name, way):
    result = opened(ADD, X, Y)(X, Y)
    first: Any = result.numpy()
    if name == "strides":
        first.strides = (0, 4)
    else:
        first.__setstate__((1, (2,), first.dtype, False, b"12345678"))
    np.testing.assert_array_equal(result.numpy(), X + Y)


def test_memory_stays_shown_while_only_the_second_value_lives(way):
    program = opened(ADD, X, Y)
    result = program(X, Y)
    first, second = result.numpy(), result.numpy()
    del first
    gc.collect()
    assert result.is_shown
    del result
    others = [program(X, X) for _ in range(4)]
    np.testing.assert_array_equal(second, X + Y)
    assert len(others) == 4


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="allocating collects no garbage")
def test_nobody_sees_half_a_tuple_of_results():
    """Garbage is collected, and anything may run, while results are made."""
    vectors = [np.full(4, i, np.float32) for i in range(5)]
    program = opened(FIVE_TO_THREE, *vectors)
    kept: list[Any] = []

    def look(phase: str, _: object) -> None:
        if phase == "start":
            kept.extend(o for o in gc.get_objects(0) if type(o) is tuple and len(o) == 3)

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(look)
    try:
        for threshold in range(1, 12):
            gc.set_threshold(threshold, 1000, 1000)
            results = program(*vectors)
            gc.set_threshold(*before)
            assert went_through(results)
            assert [r.numpy()[0] for r in results] == [1, 6, 4]
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(look)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_outlive_the_donation_of_what_they_are_of(duplicate, way):
    x, y = np.full(4, 3, np.float32), np.full(4, 2, np.float32)
    program = opened(IN_PLACE, x, y)
    first, _ = program(x, y)
    second = duplicate(first)
    shown = second.numpy()
    program(first, y, donate=[0])
    assert first.is_deleted and not second.is_deleted
    assert shown.tolist() == second.numpy().tolist() == [5] * 4


def test_the_collector_of_garbage_leaves_blocks_alone():
    """It reads and writes 16 bytes before objects of its own; blocks have malloc's there.

    Memory of this size has a header of malloc's that looks like an object being visited.
    """
    count = 1 << 24
    source = f"ENTRY e {{\n  x = f32[{count}] parameter(0)\n  ROOT r = f32[{count}] negate(x)\n}}"
    value = np.zeros(count, np.float32)
    block = opened(source.encode(), value)(value)._buffer
    assert not type(block).__flags__ & 1 << 14
    before = ctypes.string_at(id(block) - 16, 16)
    containers: list[Any] = [(block,), [block], {0: block}]
    gc.collect()
    assert ctypes.string_at(id(block) - 16, 16) == before
    assert not gc.is_tracked(block) and len(containers) == 3


def test_garbage_collected_while_a_value_is_read_may_end_arrays(way):
    """No lock is held then that ending an array would wait for."""
    program = opened(ADD, X, Y)
    first, other = program(X, Y), program(X, Y)
    kept = first.numpy()

    def end(phase: str, _: object) -> None:
        if phase == "start" and not other.is_deleted:
            other.delete()

    gc.callbacks.append(end)
    try:
        with array_module._donation:
            gc.collect()
    finally:
        gc.callbacks.remove(end)
    assert other.is_deleted
    np.testing.assert_array_equal(kept, first.numpy())
