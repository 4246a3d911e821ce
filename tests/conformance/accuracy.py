"""Accuracy of functions, interval by interval: f32, f64 and complex, at every kind of magnitude.

Each run has arguments of one binade (two for complex numbers and two operands), so that its results
are of like size and none may hide behind the rounding of larger ones. Among the binades are those
where implementations change their method: near 0, around 1, beyond 2**20, at either end.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.opdef import Tolerance
from xladev.hlo.opset import OPSET
from xladev.testing.conformance.case import Case, Inputs, Row
from xladev.testing.conformance.cells import accepts, elementwise, of_type

COUNT = 256
INEXACT = (Tolerance.FUNCTION, Tolerance.ROUNDED)
FUNCTIONS = tuple(
    n for n, op in OPSET.items()
    if op.elementwise and op.arity == 1 and op.tolerance in INEXACT
    and not any(a.required for a in op.attrs) and accepts(elementwise(n, 1, (1,)), dt.F32)
)  # fmt: skip
WITH_POLES = ("logistic",)
"""Complex functions that are left out: next to a pole, rounding on the way there decides."""

OF_TWO = ("power", "atan2", "remainder")
SMALL = (-12, -8, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 10)
BINADES: dict[PrimitiveType, tuple[int, ...]] = {
    dt.F32: (-140, -126, -60, -24, *SMALL, 16, 19, 20, 30, 60, 100, 127),
    dt.F64: (-1060, -1022, -500, -100, -54, -27, *SMALL, 9, 19, 20, 40, 60, 300, 700, 1023),
    dt.C64: (-130, -60, -12, -3, -1, 0, 1, 3, 6, 20, 60, 126),
    dt.C128: (-1040, -600, -40, -3, -1, 0, 1, 3, 6, 9, 30, 600, 1022),
}
PAIRS: dict[PrimitiveType, tuple[int, ...]] = {
    dt.F32: (-130, -20, -3, -1, 0, 1, 3, 6, 20, 120),
    dt.F64: (-1040, -40, -3, -1, 0, 1, 3, 6, 9, 40, 1000),
}


def binade(rng: np.random.Generator, exponent: int, kind: type, sign: int) -> Array:
    """Numbers from 2**exponent up to twice that, the ends among them."""
    below_two = np.nextafter(kind(2), kind(1))
    size = np.minimum(rng.uniform(1, 2, COUNT).astype(kind), below_two)
    size[:3] = 1, 1.5, below_two
    return np.asarray(np.ldexp(kind(sign) * size, exponent))


def of_one(dtype: PrimitiveType) -> Inputs:
    """A run for each binade and sign."""

    def rows(module: HloModule, seed: int) -> Sequence[Row]:
        rng = np.random.default_rng(seed)
        return [
            [binade(rng, exponent, dtype.np.type, sign)]
            for exponent in BINADES[dtype]
            for sign in (1, -1)
        ]

    return rows


def of_parts(dtype: PrimitiveType) -> Inputs:
    """A run for each pair of binades of real and imaginary part; signs are mixed."""

    def rows(module: HloModule, seed: int) -> Sequence[Row]:
        rng = np.random.default_rng(seed)
        part = dtype.component.np.type
        signs = 1 - 2 * rng.integers(0, 2, (2, COUNT))
        found: list[Row] = []
        for real, imag in product(BINADES[dtype], repeat=2):
            value = np.empty(COUNT, dtype.np)
            value.real = signs[0] * binade(rng, real, part, 1)
            value.imag = signs[1] * binade(rng, imag, part, 1)
            found.append([value])
        return found

    return rows


def of_two(dtype: PrimitiveType) -> Inputs:
    """A run for each pair of binades of the operands, and sign of the second."""

    def rows(module: HloModule, seed: int) -> Sequence[Row]:
        rng = np.random.default_rng(seed)
        return [
            [binade(rng, first, dtype.np.type, 1), binade(rng, second, dtype.np.type, sign)]
            for first, second, sign in product(PAIRS[dtype], PAIRS[dtype], (1, -1))
        ]

    return rows


def cases(opcodes: Sequence[str], count: int, types: Sequence[PrimitiveType]) -> Iterator[Case]:
    for opcode, dtype in product(opcodes, types):
        template = elementwise(opcode, count, (COUNT,))
        if not accepts(template, dtype) or (dtype.is_complex and opcode in WITH_POLES):
            continue
        runs = of_two if count == 2 else of_parts if dtype.is_complex else of_one
        yield Case(f"{opcode}-{dtype}-by-binade", of_type(template, dtype), opcode,
                   dtype.name, ("accuracy",), inputs=runs(dtype))  # fmt: skip


CASES = (
    *cases(FUNCTIONS, 1, (dt.F32, dt.F64, dt.C64, dt.C128)),
    *cases(OF_TWO, 2, (dt.F32, dt.F64)),
)
