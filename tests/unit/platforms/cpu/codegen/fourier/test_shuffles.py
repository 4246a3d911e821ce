"""Vectors laid into each other, and taken apart, against NumPy's transposes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from xladev.codegen.llvm import (
    FLOAT,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    Value,
    vector,
)
from xladev.platforms.cpu.codegen.fourier.shuffles import deinterleaved, interleaved, reverse
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits

Shuffle = Callable[[FunctionBuilder, list[Value]], list[Value]]


def run(shuffle: Shuffle, values: np.ndarray) -> np.ndarray:
    """What becomes of the rows of an array, each a vector."""
    count, lanes = values.shape
    module = ModuleBuilder("m", target_traits())
    b = module.function("f", VOID, [Parameter(PTR, "x"), Parameter(PTR, "y")])
    x, y = b.arguments
    kind = vector(FLOAT, lanes)
    loaded = [b.load(kind, b.byte_address(x, 4 * lanes * n)) for n in range(count)]
    for n, made in enumerate(shuffle(b, loaded)):
        b.store(made, b.byte_address(y, 4 * lanes * n))
    b.ret()
    code = LoadedObject("m", compile_text("m", str(module), 2), ("f",))
    result = np.full_like(values, np.nan)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("f"))
    function(values.ctypes.data, result.ctypes.data)
    return result


@pytest.mark.parametrize("lanes", [1, 2, 4, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 10, 16])
def test_lanes_are_laid_into_each_other_and_back(count: int, lanes: int) -> None:
    values = np.arange(count * lanes, dtype=np.float32).reshape(count, lanes)
    laid = values.T.reshape(count, lanes)
    np.testing.assert_array_equal(run(interleaved, values), laid)
    np.testing.assert_array_equal(run(deinterleaved, laid), values)


def test_the_last_lane_comes_first() -> None:
    values = np.arange(16, dtype=np.float32).reshape(2, 8)
    made = run(lambda b, vectors: [reverse(b, v) for v in vectors], values)
    np.testing.assert_array_equal(made, values[:, ::-1])
