"""convert, bitcast-convert, reduce-precision and stochastic-convert.

`convert` has a case for each pair of common types, and for each type one that converts to all
types at once. Rounding is to nearest, ties to even; floats outside an integer's range saturate, NaN
becomes zero; integers wrap.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import ARRAY_TYPES, PrimitiveType
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import array
from xladev.testing.conformance.case import Case, Row, given, special
from xladev.testing.conformance.cells import Node, Template, accepts, cells
from xladev.testing.random_inputs import random_arguments

DIMS = (33, 37)
COMMON = (
    dt.PRED, dt.S4, dt.S8, dt.S32, dt.S64, dt.U8, dt.U32, dt.U64, dt.F16, dt.BF16, dt.F32, dt.F64,
    dt.F8E4M3FN, dt.F8E5M2, dt.C64,
)  # fmt: skip


def convert(b: HloBuilder, dtype: PrimitiveType, target: PrimitiveType) -> Node:
    return b.op("convert", b.parameter(array(dtype, DIMS)), shape=array(target, DIMS))


def convert_to_all(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x = b.parameter(array(dtype, DIMS))
    targets = [t for t in ARRAY_TYPES if accepts(partial(convert, target=t), dtype)]
    return b.op("tuple", *(b.op("convert", x, shape=array(t, DIMS)) for t in targets))


def there_and_back(through: PrimitiveType) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        narrow = b.op("convert", b.parameter(array(dtype, DIMS)), shape=array(through, DIMS))
        return b.op("convert", narrow, shape=array(dtype, DIMS))

    return template


def pairs() -> Iterator[Case]:
    for target in COMMON:
        yield from cells(
            "convert",
            partial(convert, target=target),
            inputs=special,
            suffix=f"-to-{target}",
            types=[t for t in COMMON if t is not target],
        )


def bitcast(target: PrimitiveType) -> Template:
    """To a type of equal width, a narrower one (a dimension more) or a wider one (one less)."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        ratio = max(dtype.bits // target.bits, 1)
        group = max(target.bits // dtype.bits, 1)
        dims = (33, 37, *([group] if group > 1 else []))
        result = (33, 37, *([ratio] if ratio > 1 else []))
        x = b.parameter(array(dtype, dims))
        return b.op("bitcast-convert", x, shape=array(target, result))

    return template


def bitcasts() -> Iterator[Case]:
    by_width: Sequence[PrimitiveType] = (
        dt.S4, dt.S8, dt.U8, dt.S16, dt.U16, dt.F16, dt.BF16, dt.S32, dt.U32, dt.F32, dt.S64,
        dt.F64, dt.U64, dt.F8E5M2, dt.F8E4M3FN,
    )  # fmt: skip
    for target in by_width:
        wanted = [t for t in by_width if t is not target]
        yield from cells(
            "bitcast-convert", bitcast(target), types=wanted, suffix=f"-to-{target}", inputs=special
        )
    for source, target in ((dt.C64, dt.C128), (dt.C128, dt.C64)):
        yield from cells(
            "bitcast-convert", bitcast(target), types=(source,), suffix=f"-to-{target}"
        )


def to_same(b: HloBuilder, dtype: PrimitiveType) -> Node:
    return b.op("bitcast-convert", b.parameter(array(dtype, DIMS)), shape=array(dtype, DIMS))


def reduced(exponent: int, mantissa: int) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = b.parameter(array(dtype, DIMS))
        return b.op("reduce-precision", x, exponent_bits=exponent, mantissa_bits=mantissa)

    return template


def stochastic(target: PrimitiveType) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        random = {16: dt.U16, 32: dt.U32, 64: dt.U64}.get(dtype.bits, dt.U8)
        x, bits = b.parameter(array(dtype, DIMS)), b.parameter(array(random, DIMS))
        return b.op("stochastic-convert", x, bits, shape=array(target, DIMS))

    return template


def any_bits(module: HloModule, seed: int) -> Sequence[Row]:
    """Specials, and numbers that random bits of the whole range decide about."""
    values, small = random_arguments(module, seed)
    code = np.random.default_rng(seed).bytes(small.nbytes)
    return [*special(module, seed), [values, np.frombuffer(code, small.dtype).reshape(DIMS)]]


STOCHASTIC = (dt.S8, dt.BF16, dt.F16, dt.F8E5M2, dt.F8E4M3FN, dt.F8E8M0FNU)


def beyond_largest() -> Case:
    """Between the largest power of two and the next one, which the type has not got."""
    sizes = np.linspace(1, 1.49, 50) * 2.0**127
    x = np.repeat(sizes.astype(np.float32), 5)
    bits = np.tile(np.array([0, 1, 2**30, 2**31, 2**32 - 1], np.uint32), 50)

    def build(b: HloBuilder) -> Node:
        operands = b.parameter(array(dt.F32, x.shape)), b.parameter(array(dt.U32, x.shape))
        return b.op("stochastic-convert", *operands, shape=array(dt.F8E8M0FNU, x.shape))

    return Case("stochastic-convert-beyond-f8e8m0fnu", build, "stochastic-convert", "f32",
                inputs=given([x, bits]))  # fmt: skip


FORMATS = ((8, 23), (8, 7), (5, 10), (5, 2), (4, 3), (3, 0), (2, 1), (11, 52), (1, 4))

CASES = (
    *cells("convert", convert_to_all, inputs=special, suffix="-to-all"),
    *pairs(),
    *(
        c
        for through in (dt.BF16, dt.F16, dt.F8E4M3FN, dt.S8, dt.S4)
        for c in cells(
            "convert",
            there_and_back(through),
            types=(dt.F32, dt.S32),
            suffix=f"-through-{through}",
            inputs=special,
        )
    ),
    *cells("bitcast-convert", to_same, suffix="-same", inputs=special),
    *bitcasts(),
    beyond_largest(),
    *cells("reduce-precision", reduced(5, 2), inputs=special),
    *(
        c
        for e, m in FORMATS
        for c in cells(
            "reduce-precision",
            reduced(e, m),
            types=(dt.F32, dt.BF16, dt.F64),
            suffix=f"-e{e}m{m}",
            inputs=special,
        )
    ),
    *(
        c
        for t in STOCHASTIC
        for c in cells("stochastic-convert", stochastic(t), suffix=f"-to-{t}", inputs=any_bits)
    ),
)
