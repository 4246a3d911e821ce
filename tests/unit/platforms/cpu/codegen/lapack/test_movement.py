"""Microkernels around calls: transposes of all sizes, and what is not finite."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    Value,
)
from xladev.platforms.cpu.codegen.lapack.movement import (
    call_exchanges,
    call_fill,
    call_is_finite,
    call_transpose,
)
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits

SIZES = [(1, 1), (1, 9), (9, 1), (7, 9), (8, 8), (8, 13), (16, 64), (33, 17), (64, 16)]


def run(emit: Callable[[FunctionBuilder, tuple[Value, ...]], None], *arrays: np.ndarray) -> None:
    """Calls a function of the addresses of some arrays."""
    module = ModuleBuilder("m", target_traits())
    names = [Parameter(PTR, f"a{n}") for n in range(len(arrays))]
    b = module.function("kernel", VOID, names)
    emit(b, b.arguments)
    b.ret()
    code = LoadedObject("m", compile_text("m", str(module), 2), ("kernel",))
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))
    kind(code.address("kernel"))(*(a.ctypes.data for a in arrays))


def source(nbytes: int, rows: int, columns: int) -> np.ndarray:
    data = np.random.default_rng(1).bytes(rows * columns * nbytes)
    return np.frombuffer(data, np.dtype(f"V{nbytes}")).reshape(rows, columns)


@pytest.mark.parametrize("nbytes", [4, 8, 16])
@pytest.mark.parametrize("sizes", SIZES)
def test_transpose(nbytes: int, sizes: tuple[int, int]) -> None:
    given = source(nbytes, *sizes)
    found = np.zeros(sizes[::-1], given.dtype)
    run(lambda b, a: call_transpose(b, a[0], a[1], sizes, nbytes), found, given)
    assert found.tobytes() == given.T.copy().tobytes()


@pytest.mark.parametrize("words", [(7,), (1, 2)])
def test_fill_stops_where_it_should(words: tuple[int, ...]) -> None:
    found = np.zeros(9, np.int32)
    run(lambda b, a: call_fill(b, a[0], 3, words), found)
    assert found.tolist() == [*(words * 3), *[0] * (9 - 3 * len(words))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_every_place_of_a_triangle_counts_and_no_other(dtype: type, bad: float) -> None:
    element, n = (FLOAT if dtype is np.float32 else DOUBLE), 21
    runs = {"lower": (0, 1, 1), "upper": (1, n, -1)}
    for name, how in runs.items():
        inside = np.tril(np.ones((n, n))) if name == "lower" else np.triu(np.ones((n, n)))
        matrices = np.zeros((n * n, n, n), dtype)
        matrices.reshape(n * n, n * n)[np.arange(n * n), np.arange(n * n)] = bad
        flags = np.zeros(n * n, np.int64)

        def emit(b: FunctionBuilder, a: tuple[Value, ...], how: tuple[int, int, int] = how) -> None:
            with b.loop(0, n * n) as each:
                matrix = b.byte_address(a[0], b.mul(each, n * n * np.dtype(dtype).itemsize))
                flag = b.byte_address(a[1], b.mul(each, 8))
                call_is_finite(b, element, matrix, flag, (n, n), how)

        run(emit, matrices, flags)
        assert (flags.reshape(n, n) == 1 - inside).all(), name


def test_large_finite_numbers_are_finite() -> None:
    given, flag = np.full(100, np.finfo(np.float32).max), np.zeros(1, np.int64)
    run(lambda b, a: call_is_finite(b, FLOAT, a[0], a[1], (1, 0), (0, 100, 0)), given, flag)
    assert flag[0] == 1


def test_exchanges_make_an_order() -> None:
    pivots, order = np.array([3, 2, 4], np.int32), np.zeros(5, np.int32)
    run(lambda b, a: call_exchanges(b, a[0], 3, a[1], 5), pivots, order)
    assert pivots.tolist() == [2, 1, 3] and order.tolist() == [2, 1, 3, 0, 4]
