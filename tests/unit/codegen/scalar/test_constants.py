"""Constants in compute representation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.codegen.jit import compile_function, run
from xladev.codegen import ModuleBuilder, Parameter, constant_element, store_element
from xladev.codegen.llvm import PTR, VOID
from xladev.hlo.dtype import ARRAY_TYPES, COMPLEXES, PrimitiveType

_CASES = [(t, n) for t in ARRAY_TYPES for n in (0, 1, 1.5, -1, np.nan, np.inf)]
_CASES += [(t, 2 + 3j) for t in COMPLEXES]


@pytest.mark.parametrize(("dtype", "number"), _CASES, ids=str)
def test_constant_is_stored_as_numpy_rounds_it(dtype: PrimitiveType, number: complex) -> None:
    if not (dtype.is_float or dtype.is_complex) and number in (1.5, np.inf) or number != number:
        number = 1
    module = ModuleBuilder("constant")
    b = module.function("kernel", VOID, [Parameter(PTR, "out")])
    store_element(b, b.arguments[0], 0, dtype, constant_element(dtype, number))
    b.ret()
    out = np.zeros(1, dtype.np)
    run(compile_function(module, "kernel"), out)
    with np.errstate(all="ignore"):
        want = np.array([number]).astype(dtype.np)
    np.testing.assert_array_equal(out.astype(np.complex128), want.astype(np.complex128))
