"""Masked loads, gathers and stores: lanes outside of the mask are zeros, and touch no memory."""

import ctypes

import numpy as np
import pytest

from tests.unit.codegen.jit import compile_function
from xladev.codegen.llvm import FLOAT, I32, I64, PTR, VOID, ModuleBuilder, Parameter, vector

LANES = 4


def run(kind: str, lanes: int, places: list[int], values: list[float]) -> np.ndarray:
    """One vector that is read of ``values`` in so many lanes, and written over sevens so."""
    module = ModuleBuilder(f"masked.{kind}")
    b = module.function("kernel", VOID, [Parameter(PTR, n) for n in ("source", "places", "target")])
    source, numbers, target = b.arguments
    mask = b.icmp("slt", b.lane_numbers(LANES, I64), b.const(vector(I64, LANES), lanes))
    if kind == "gather":
        indices = b.load(vector(I32, LANES), numbers, align=4)
        read = b.masked_gather(vector(FLOAT, LANES), source, indices, mask)
    else:
        read = b.masked_load(vector(FLOAT, LANES), source, mask)
    if kind == "store":
        b.masked_store(read, target, mask)
    else:
        b.store(read, target)
    b.ret()
    held = np.array(values, np.float32), np.array(places, np.int32), np.full(LANES, 7, np.float32)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(compile_function(module, "kernel"))
    function(*(array.ctypes.data for array in held))
    return held[2]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("load", [1, 2, 3, 0]), ("gather", [3, 1, 2, 0]), ("store", [1, 2, 3, 7])],
)
def test_lanes_of_the_mask(kind: str, wanted: list[float]) -> None:
    far = 1 << 30  # where nothing is
    np.testing.assert_array_equal(run(kind, 3, [2, 0, 1, far], [1, 2, 3, 4]), wanted)
