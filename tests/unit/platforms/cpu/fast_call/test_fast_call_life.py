"""What lives and dies behind the fast call: counts, memory, devices, threads, programs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.fast_call.samples import (
    ADD,
    FIVE_TO_THREE,
    WITH_SCRATCH,
    X,
    Y,
    opened,
    went_through,
)
from xladev import instrument
from xladev.client import CompiledModule, compile
from xladev.errors import ArgumentError, DeviceError, DeviceLostError, XladevError
from xladev.platforms.cpu import block_pool
from xladev.platforms.cpu.block_pool import KEPT_NBYTES, BlockPool
from xladev.platforms.cpu.fast_call import MOST_ARRAYS, WRAP_ALIGNMENT, make_fast_call
from xladev.platforms.cpu.native_fast_call import native_fast_call
from xladev.runtime.buffers.native_accounting import Account
from xladev.runtime.launch.definition_event import ExecutionFailure

# Who watches, and what is counted


def test_traces_and_counters_see_every_launch():
    program = opened(ADD, X, Y)
    with instrument.collect_counters() as counts:
        assert not went_through(program(X, Y))
        with instrument.tracing() as trace:
            program(X, Y)
        program(X, Y)
    assert counts["runtime.launches"] == 3
    assert [e.name for e in trace.events if e.category == "launch"] == ["plus"]
    assert went_through(program(X, Y))


def test_statistics_are_the_same_by_either_way(way):
    program = opened(WITH_SCRATCH, np.eye(64, dtype=np.float32))
    device, x = program.devices[0], np.eye(64, dtype=np.float32)
    scratch = program.program.executables[0].signature.scratch_nbytes
    device.memory_stats()
    before = device.memory_stats()
    assert (before.nbytes_in_use, before.allocations) == (0, 0)
    kept = [program(x) for _ in range(3)]
    during = device.memory_stats()
    assert (during.nbytes_in_use, during.allocations) == (3 * x.nbytes, 3)
    assert during.total_allocations == before.total_allocations + 6
    assert during.peak_nbytes == 3 * x.nbytes + scratch
    assert device.allocator.live() == {"result 0 of scratch": 3 * x.nbytes}
    del kept
    program(x)
    after = device.memory_stats()
    assert (after.nbytes_in_use, after.peak_nbytes) == (0, during.peak_nbytes)
    assert device.allocator.live() == {}


def test_free_memory_is_used_again():
    program = opened(ADD, X, Y)
    pool = program.devices[0].executor._pool
    first = program(X, Y)
    address, kept = first._buffer._address, pool.kept_nbytes
    assert program(X, Y)._buffer._address != address
    assert pool.kept_nbytes == kept + X.nbytes
    del first
    assert pool.kept_nbytes == kept + 2 * X.nbytes
    assert program(X, Y)._buffer._address == address
    assert pool.kept_nbytes == kept + 2 * X.nbytes


def test_a_program_makes_room_for_its_results():
    count = KEPT_NBYTES // 4 + 1024
    source = f"ENTRY e {{ x = f32[] parameter(0)  ROOT r = f32[{count}] broadcast(x) }}"
    program = opened(source.encode(), np.float32(1))
    pool = program.devices[0].executor._pool
    assert pool._record.limit_nbytes == min(4 * count, block_pool.most_kept_nbytes())


def test_kept_memory_is_bounded_and_let_go():
    count = KEPT_NBYTES // 4 // 3
    source = f"ENTRY e {{\n  x = f32[{count}] parameter(0)\n  ROOT r = f32[{count}] negate(x)\n}}"
    value = np.zeros(count, np.float32)
    program = opened(source.encode(), value)
    pool = program.devices[0].executor._pool
    results = [program(value) for _ in range(5)]
    assert pool.kept_nbytes == 0
    del results
    assert 0 < pool.kept_nbytes <= KEPT_NBYTES
    pool.clear()
    assert pool.kept_nbytes == 0
    assert went_through(program(value))


def test_all_results_of_a_program_are_kept(monkeypatch):
    """Fresh pages for half a gigabyte of gradients take half as long as the training step."""
    nbytes = 3 * X.nbytes
    monkeypatch.setattr(block_pool, "KEPT_NBYTES", X.nbytes)
    pool = BlockPool(opened(ADD, X, Y).devices[0].executor, Account(), lambda address: None)
    assert pool._record.limit_nbytes == X.nbytes
    pool.make_room(nbytes)
    pool.make_room(X.nbytes)
    assert pool._record.limit_nbytes == nbytes
    monkeypatch.setattr(block_pool, "most_kept_nbytes", lambda: 4 * X.nbytes)
    pool.make_room(5 * X.nbytes)
    assert pool._record.limit_nbytes == 4 * X.nbytes
    pool.close()
    pool.make_room(nbytes)
    assert pool._record.limit_nbytes == -1


@pytest.mark.parametrize("lacking", ["result", "scratch"])
def test_no_memory_goes_the_long_way(lacking):
    """More bytes than there are addresses: only planting them gets so far."""
    x = np.eye(64, dtype=np.float32)[:, ::-1].copy()
    program = opened(WITH_SCRATCH, x)
    scratch = program.program.executables[0].signature.scratch_nbytes
    nbytes = x.nbytes if lacking == "result" else scratch
    assert scratch != x.nbytes
    pool = program.devices[0].executor._pool
    bucket = pool._buckets[nbytes]
    pool.clear()
    bucket.nbytes = 1 << 62
    result = program(x)
    assert not went_through(result)
    np.testing.assert_array_equal(result.numpy(), x)
    del result
    assert program.devices[0].memory_stats().nbytes_in_use == 0
    bucket.nbytes = nbytes
    assert went_through(program(x))


def planted_fast_call(
    program: CompiledModule, status: int, seen: list[tuple[int, int, int]]
) -> Callable[..., Any]:
    """A fast call of the program whose entry this function is: it notes memory, gives a status."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.POINTER(ctypes.c_void_p)] * 3, ctypes.c_void_p)

    def entry(context: Any, arguments: Any, results: Any, scratch: int) -> int:
        seen.append((arguments[0], results[0], scratch))
        return status

    made = kind(entry)
    launchable, native = program._launchables[0], native_fast_call()
    pool = program.devices[0].executor._pool
    assert native is not None
    address = ctypes.cast(made, ctypes.c_void_p).value or 0
    fast_call = make_fast_call(native, pool, launchable._fast_call_spec(True), address, made)
    assert fast_call is not None
    return fast_call


@pytest.mark.parametrize("status", [0, 1, -1])
def test_a_program_that_reports_failure_goes_the_long_way(status):
    x = np.eye(64, dtype=np.float32)
    program, seen = opened(WITH_SCRATCH, x), []
    result = planted_fast_call(program, status, seen)(x)
    ((argument, place, scratch),) = seen
    assert argument == x.ctypes.data
    assert place % 64 == scratch % 64 == 0 and len({argument, place, scratch}) == 3
    assert (result is None) == bool(status)
    del result
    assert program.devices[0].memory_stats().allocations == 0


def outcome_without_room(hooks: Any, start: int, work: Callable[[], object]) -> str:
    """What comes of a call one of whose allocations fails, numbered from 0; its result is gone."""
    hooks.set_nomemory(start, start + 1)
    try:
        made = work()
    except MemoryError:
        hooks.remove_mem_hooks()
        return "raised"
    hooks.remove_mem_hooks()
    del made
    return "returned"


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 5])
def test_no_room_for_objects_raises_and_leaves_nothing(count):
    hooks = pytest.importorskip("_testcapi")
    arguments = (X, Y) if count == 2 else tuple(np.ones((5, 4), np.float32))
    program = opened(ADD if count == 2 else FIVE_TO_THREE, *arguments)
    fast_call, outcomes = program._fast_call, set[str]()
    assert fast_call is not None
    device = program.devices[0]
    for start in range(12):
        gc.collect()
        outcomes.add(outcome_without_room(hooks, start, lambda: fast_call(*arguments)))
        assert device.memory_stats().allocations == 0
    assert outcomes == {"raised", "returned"}


def test_no_room_to_show_raises_and_shows_nothing():
    hooks = pytest.importorskip("_testcapi")
    result: Any = opened(ADD, X, Y)(X, Y)
    show, outcomes = result._buffer.show, set[str]()
    for start in range(6):
        outcomes.add(outcome_without_room(hooks, start, lambda: show(result)))
        assert not result.is_shown
    assert outcomes == {"raised", "returned"}


def test_other_threads_run_while_the_program_does():
    size = 1024
    source = f"""ENTRY e {{
  x = f32[{size},{size}] parameter(0)
  y = f32[{size},{size}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT z = f32[{size},{size}] dot(y, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
    x = np.eye(size, dtype=np.float32)
    program, seen, stop = opened(source.encode(), x), [0], threading.Event()
    assert program._fast_call is not None

    def count() -> None:
        while not stop.is_set():
            seen[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)
    try:
        thread.start()
        before = seen[0]
        program._fast_call(x)
        after = seen[0]
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert after > before


# The life of devices


def test_closed_devices_refuse(way, registry):
    program = opened(ADD, X, Y)
    result, shown = program(X, Y), program(X, Y).numpy()
    registry.close()
    with pytest.raises(DeviceError, match="was closed"):
        program(X, Y)
    for use in (result.numpy, result.check_live, result.block_until_ready):
        with pytest.raises(XladevError, match="went with its device"):
            use()
    np.testing.assert_array_equal(shown, X + Y)


def test_lost_devices_refuse_until_they_are_reset(way):
    program = opened(ADD, X, Y)
    device, result = program.devices[0], program(X, Y)
    device.note(ExecutionFailure(DeviceLostError("planted").at("cpu:0"), "cpu:0"))
    with pytest.raises(DeviceLostError):
        program(X, Y)
    device.reset()
    with pytest.raises(DeviceLostError, match="went with its device"):
        program(result, Y)
    del result
    assert device.memory_stats().allocations == 0
    again = program(X, Y)
    assert went_through(again) == (way == "fast_call")
    np.testing.assert_array_equal(again.numpy(), X + Y)
    assert device.memory_stats().allocations == 1


# Threads and leaks


def test_many_threads_at_once(way):
    program = opened(FIVE_TO_THREE, *[np.zeros(4, np.float32)] * 5)
    problems: list[str] = []

    def work(number: int) -> None:
        vectors = [np.full(4, number + i, np.float32) for i in range(5)]
        want = [(2 * number + 1), (number + 2) * (number + 3), 4]
        for _ in range(300 if way == "fast_call" else 30):
            x, y, z = program(*vectors)
            x, _, _ = program(x, z, z, z, y)  # x + z
            got = [int(a.numpy()[3]) for a in (x, y, z)]
            if got != [want[0] + want[2], *want[1:]]:
                problems.append(f"{number}: {got}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert program.devices[0].memory_stats().allocations == 0


def test_arrays_changed_meanwhile_by_another_thread(way):
    """What comes out is undefined; that it comes out is not."""
    program, stop = opened(ADD, X, Y), threading.Event()
    changing = X.copy()
    shared = [program(X, Y)]

    def change() -> None:
        while not stop.is_set():
            changing[...] += 1
            changing.shape = (3, 2)
            changing.shape = (2, 3)
            with contextlib.suppress(ArgumentError):
                shared[0].delete()
            shared[0] = program(X, Y)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(2000 if way == "fast_call" else 100):
            with contextlib.suppress(ArgumentError):
                assert program(changing, shared[0]).numpy().shape == (2, 3)
    finally:
        stop.set()
        thread.join()


def test_calls_leave_nothing_behind():
    vectors = [np.full(4, i, np.float32) for i in range(5)]
    program = opened(FIVE_TO_THREE, *vectors)
    device = program.devices[0]
    shape = program(*vectors)[0].hlo_shape
    watched = [*vectors, vectors[0].dtype, device, shape, None, (), ""]

    def soak() -> None:
        for _ in range(2000):
            x, y, _ = program(*vectors)
            program(x, y, x, y, x)[2].numpy()
        for _ in range(20):
            with pytest.raises(ArgumentError):
                program(*vectors[:4], vectors[0][::2])

    soak()
    gc.collect()
    before = [sys.getrefcount(o) for o in watched], sys.getallocatedblocks()
    soak()
    gc.collect()
    after = [sys.getrefcount(o) for o in watched], sys.getallocatedblocks()
    assert all(abs(a - b) < 50 for a, b in zip(after[0], before[0], strict=True))
    assert after[1] - before[1] < 500
    assert device.memory_stats().allocations == 0


def test_programs_and_their_fast_calls_are_collected():
    program = opened(ADD, X, Y)
    loaded = weakref.ref(program._launchables[0].loaded)
    result = program(X, Y)
    del program
    gc.collect()
    assert loaded() is None
    np.testing.assert_array_equal(result.numpy(), X + Y)


def test_programs_of_too_many_arrays_have_no_fast_call():
    names = "\n".join(f"  p{i} = f32[] parameter({i})" for i in range(MOST_ARRAYS))
    source = f"ENTRY e {{\n{names}\n  ROOT r = f32[] add(p0, p1)\n}}"
    values = [np.float32(1)] * MOST_ARRAYS
    program = opened(source.encode(), *values)
    assert program._fast_call is None
    assert float(program(*values)) == 2


def test_numpy_arrays_are_wrapped_where_the_description_says():
    device = compile(ADD, "cpu").devices[0]
    assert device.description.memory_spaces[0].wrap_alignment == WRAP_ALIGNMENT
    assert device.description.memory_spaces[0].alignment == 64


# Processes


def run(bytecode: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own that has the program ``add``, called three times."""
    prelude = """
import os, numpy as np
from tests.unit.platforms.cpu.fast_call.samples import ADD, X, Y, opened, went_through
add = opened(ADD, X, Y)
assert went_through(add(X, Y))
"""
    return subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(bytecode)],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[5],
    )  # fmt: skip


def test_the_fast_call_works_in_a_forked_child():
    ran = run("""
        kept = [add(X, Y) for _ in range(3)]
        child = os.fork()
        if not child:
            result = add(kept[0], Y)
            assert went_through(result)
            np.testing.assert_array_equal(result.numpy(), X + 2 * Y)
            kept.clear()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert went_through(add(kept[1], Y))
    """)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_arrays_and_views_may_be_the_last_to_go():
    ran = run("""
        import sys
        class Late:
            def __init__(self):
                self.me, self.result, self.shown = self, add(X, Y), add(X, Y).numpy()
            def __del__(self):
                print(self.shown.item(0), self.result.device.name)
        late, everywhere = Late(), [add(X, Y) for _ in range(100)]
        sys.kept, np.kept = add(X, Y), add(X, Y).numpy()
    """)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout in ("0.5 cpu:0\n", "")


def test_calls_at_the_end_of_the_process():
    ran = run("""
        import atexit, threading
        atexit.register(lambda: print(add(X, Y).numpy().sum()))
        def work():
            while True:
                add(X, add(X, Y)).numpy()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
    """)
    assert ran.returncode == 0, ran.stderr
