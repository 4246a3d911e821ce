"""Memory that is kept for the next launch."""

import numpy as np

import xladev
from xladev.platforms.cpu.executor import CpuExecutor
from xladev.platforms.cpu.free_memory import FreeMemory
from xladev.runtime.host_executor import host_address, host_bytes
from xladev.runtime.memory import DeviceMemory


def memory(nbytes: int) -> DeviceMemory:
    return CpuExecutor(0).allocate(nbytes, alignment=64, memory_space=0)


def test_the_last_freed_of_a_size_comes_back_first() -> None:
    free = FreeMemory()
    first, second, other = memory(8), memory(8), memory(16)
    for freed in (first, second, other):
        free.give(freed)
    assert free.take(8, 1) is second
    assert free.take(8, 1) is first
    assert free.take(8, 1) is None
    assert free.take(16, 64) is other


def test_memory_that_is_not_aligned_enough_is_not_taken() -> None:
    free = FreeMemory()
    kept = memory(8)
    free.give(kept)
    wanted = (host_address(kept) & -host_address(kept)) * 2
    assert free.take(8, wanted) is None
    assert free.take(8, wanted // 2) is kept


def test_what_is_kept_is_limited() -> None:
    free = FreeMemory(limit=20, most=20)
    kept = [memory(8) for _ in range(3)]
    for freed in kept:
        free.give(freed)
    assert [free.take(8, 1) for _ in range(3)] == [kept[2], kept[1], None]
    free.give(memory(21))
    assert free.take(21, 1) is None
    free.give(kept[0])
    free.clear()
    assert free.take(8, 1) is None


def test_more_is_kept_once_it_is_asked_for_again() -> None:
    free = FreeMemory(limit=20, most=50)
    for _ in range(3):
        kept = [memory(16), memory(16), memory(30)]
        for freed in kept:
            free.give(freed)
        taken = [free.take(freed.nbytes, 1) for freed in kept]
    assert sum(each is not None for each in taken) == 2
    few = FreeMemory(limit=20, most=50)
    for number in range(9, 20):
        few.give(memory(number))
    assert few.take(19, 1) is not None
    assert few.take(18, 1) is None
    few.give(memory(21))
    assert few.take(22, 1) is None
    few.give(memory(20))
    few.give(memory(18))
    assert (few.take(20, 1) is None, few.take(18, 1) is None) == (False, False)


def test_an_executor_gives_freed_memory_again() -> None:
    executor = CpuExecutor(0)
    first = executor.allocate(100, alignment=64, memory_space=0)
    executor.deallocate(first)
    assert executor.allocate(100, alignment=64, memory_space=0) is first
    second = executor.allocate(100, alignment=64, memory_space=0)
    assert not np.shares_memory(host_bytes(first), host_bytes(second))
    executor.deallocate(first)
    executor.close()
    assert executor.allocate(100, alignment=64, memory_space=0) is not first


def test_results_that_are_shown_are_not_written_again() -> None:
    text = "HloModule m\nENTRY e { x = f32[1000] parameter(0) ROOT r = f32[1000] add(x, x) }"
    compiled = xladev.compile(xladev.parse(text), "cpu")
    shown = [compiled(np.full(1000, n, np.float32)).numpy() for n in range(20)]
    assert [float(a[0]) for a in shown] == [2.0 * n for n in range(20)]
    del shown[::2]
    more = [compiled(np.full(1000, n, np.float32)).numpy() for n in range(10)]
    assert [float(a[0]) for a in shown] == [2.0 * n for n in range(1, 20, 2)]
    assert [float(a[-1]) for a in more] == [2.0 * n for n in range(10)]
