"""The pool of threads: every unit once, whoever calls, forks or leaves."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from xladev.errors import OptionError
from xladev.platforms.cpu import pool
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits
from xladev.platforms.cpu.native_block import keep_forever

PARTS = """
define void @count(ptr %frame, ptr %private, i64 %begin, i64 %end) {
entry:
  br label %next
next:
  %unit = phi i64 [ %begin, %entry ], [ %after, %next ]
  %at = getelementptr i32, ptr %frame, i64 %unit
  %old = atomicrmw add ptr %at, i32 1 monotonic
  %after = add i64 %unit, 1
  %more = icmp slt i64 %after, %end
  br i1 %more, label %next, label %done
done:
  ret void
}
define void @mark(ptr %frame, ptr %private, i64 %begin, i64 %end) {
  %number = ptrtoint ptr %private to i64
  store i64 %begin, ptr %private
  %at = getelementptr i64, ptr %frame, i64 %begin
  store i64 %number, ptr %at
  ret void
}
declare void @xladev_parallel(ptr, ptr, ptr, i64, i64, i64, i64)
define void @slowly(ptr %frame, ptr %private, i64 %begin, i64 %end) {
  %ignored = call i32 @usleep(i32 3000)
  call void @count(ptr %frame, ptr %private, i64 %begin, i64 %end)
  ret void
}
declare i32 @usleep(i32)
define void @nested(ptr %frame, ptr %private, i64 %begin, i64 %end) {
  call void @xladev_parallel(ptr @count, ptr %frame, ptr null, i64 500, i64 10, i64 0, i64 3)
  ret void
}
define void @often(ptr %frame, i64 %times, i64 %units, i64 %threads) {
entry:
  br label %next
next:
  %turn = phi i64 [ 0, %entry ], [ %after, %next ]
  call void @xladev_parallel(ptr @count, ptr %frame, ptr null, i64 %units, i64 1, i64 0,
                             i64 %threads)
  %after = add i64 %turn, 1
  %more = icmp slt i64 %after, %times
  br i1 %more, label %next, label %done
done:
  ret void
}
"""
SYMBOLS = ("count", "mark", "nested", "often", "slowly")
UNITS = 1000


@cache
def code() -> LoadedObject:
    text = f'target triple = "{target_traits().triple}"\n{PARTS}'
    return LoadedObject("parts", compile_text("parts", text, 1), SYMBOLS, pool.pool_symbols())


def parallel(
    part: str, frame: np.ndarray, units: int, grain: int, nbytes: int = 0, threads: int = 3
) -> None:
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 4)
    private = np.zeros(max(nbytes, 8), np.uint8)
    call = kind(pool.pool_symbols()[pool.PARALLEL])
    address = code().address(part)
    call(address, frame.ctypes.data, private.ctypes.data, units, grain, nbytes, threads)


def misses_units(address: int) -> bool:
    """Whether units of slow parts are left to be computed when a pool returns."""
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 4)
    frames = [np.zeros(12, np.int32) for _ in range(8)]
    missed = False
    for frame in frames:
        kind(address)(code().address("slowly"), frame.ctypes.data, None, 12, 1, 0, 3)
        missed |= bool((frame != 1).any())
    time.sleep(0.1)  # what is late writes to the frames still
    return missed


def planted(old: str, new: str) -> int:
    """Address of a pool in which some text is replaced; its threads never end."""
    text = pool.pool_text(target_traits().triple)
    assert text.count(old) == 1
    wrong = LoadedObject(
        "wrong", compile_text("wrong", text.replace(old, new), 1), (pool.PARALLEL,)
    )
    keep_forever(wrong, *wrong.parts)
    return wrong.address(pool.PARALLEL)


def test_a_caller_waits_for_parts_that_were_begun() -> None:
    assert not misses_units(pool.pool_symbols()[pool.PARALLEL])
    assert misses_units(planted("  call void @await(ptr %pool, ptr %job)\n", ""))


def test_a_part_that_nobody_takes_is_found() -> None:
    assert misses_units(planted("icmp slt i64 %first, %count", "icmp slt i64 %first, 11"))


def often(frame: np.ndarray, times: int, threads: int) -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    kind(code().address("often"))(frame.ctypes.data, times, frame.size, threads)


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 7, 300])
@pytest.mark.parametrize(("units", "grain"), [(0, 1), (1, 1), (7, 1), (1000, 1), (1000, 499),
                                              (1000, 1000), (1001, 7)])  # fmt: skip
def test_every_unit_is_computed_once(threads: int, units: int, grain: int) -> None:
    counts = np.zeros(max(units, 1), np.int32)
    if units:
        parallel("count", counts, units, grain, threads=threads)
    assert counts.sum() == units
    assert (counts[:units] == 1).all()


def test_each_thread_has_memory_of_its_own() -> None:
    frame = np.zeros(UNITS, np.int64)
    parallel("mark", frame, UNITS, 1, nbytes=1 << 16)
    used = sorted(set(frame[frame != 0].tolist()))
    assert 1 <= len(used) <= 3
    assert all(after - before >= 1 << 16 for before, after in zip(used, used[1:], strict=False))


def test_a_part_may_call_the_pool() -> None:
    counts = np.zeros(500, np.int32)
    parallel("nested", counts, 64, 1)
    # Parts are at least one unit long, so there are as many as the pool made of 64 units.
    assert (counts == counts[0]).all()
    assert 3 <= counts[0] <= 64


def in_threads(number: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_eight_callers_share_the_threads() -> None:
    frames = [np.zeros(24, np.int32) for _ in range(8)]
    left = iter(frames)
    in_threads(8, lambda: often(next(left), 2000, 3))
    for frame in frames:
        assert (frame == 2000).all()


def test_more_callers_than_jobs_work_alone() -> None:
    frames = [np.zeros(24, np.int32) for _ in range(40)]
    left = iter(frames)
    in_threads(40, lambda: often(next(left), 200, 2))
    for frame in frames:
        assert (frame == 200).all()


def test_a_forked_process_has_threads_of_its_own() -> None:
    counts = np.zeros(UNITS, np.int32)
    parallel("count", counts, UNITS, 1)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        own = np.zeros(24, np.int32)
        often(own, 500, 3)
        threads = len(os.listdir("/proc/self/task"))
        os._exit(0 if (own == 500).all() and threads == 3 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    parallel("count", counts, UNITS, 1)
    assert (counts == 2).all()


LEAVE = """
import sys, threading
sys.path[:0] = {path!r}
from tests.unit.platforms.cpu.test_pool import np, often
frame = np.zeros(64, np.int32)
often(frame, 10, 3)
thread = threading.Thread(target=lambda: often(frame, 10**9, 3), daemon=True)
thread.start()
often(np.zeros(64, np.int32), 1000, 3)
print("left")
"""


@pytest.mark.long
@pytest.mark.parametrize("turn", range(3))
def test_a_process_ends_while_its_threads_work(turn: int) -> None:
    text = LEAVE.format(path=[os.getcwd(), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "left"), ran.stderr


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_wrong_number_of_threads_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(pool.THREADS_VARIABLE, text)
    with pytest.raises(OptionError, match=pool.THREADS_VARIABLE):
        pool.threads_wanted()


def test_the_variable_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pool.THREADS_VARIABLE, " 5 ")
    assert pool.threads_wanted() == 5
    monkeypatch.delenv(pool.THREADS_VARIABLE)
    assert pool.threads_wanted() >= 1
