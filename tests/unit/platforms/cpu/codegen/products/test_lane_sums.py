"""Sums of lanes, of as many vectors and lanes as kernels have."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from xladev.codegen.llvm import FLOAT, I64, PTR, VOID, ModuleBuilder, Parameter, vector
from xladev.platforms.cpu.codegen.products.lane_sums import lane_sums
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("count", [1, 2, 8, 16])
def test_each_vector_has_its_sum(lanes: int, count: int) -> None:
    module = ModuleBuilder("m", target_traits())
    b = module.function("f", VOID, [Parameter(PTR, "x"), Parameter(PTR, "y")])
    source, target = b.arguments
    kind = FLOAT if lanes == 1 else vector(FLOAT, lanes)
    vectors = [
        b.load(kind, b.byte_address(source, b.const(I64, 4 * lanes * n)), align=4)
        for n in range(count)
    ]
    for n, total in enumerate(lane_sums(b, vectors)):
        b.store(total, b.element_address(target, n, FLOAT))
    b.ret()
    code = LoadedObject("m", compile_text("m", str(module), 2), ("f",))
    x = np.arange(count * lanes, dtype=np.float32).reshape(count, lanes) ** 2
    y = np.zeros(count, np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("f"))(
        x.ctypes.data, y.ctypes.data
    )
    np.testing.assert_array_equal(y, x.sum(axis=1))
