"""Exhaustive numerics: every input of 8- and 16-bit types, and f32 in strides of all its bits.

Functions of one operand get all 2**16 patterns of bf16 and f16, all 2**8 of each fp8 type, and
131,072 patterns of f32, evenly spread over its 2**32 with an odd stride, so that every exponent and
both signs occur. Functions of two operands get all 2**16 pairs of 8-bit patterns.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import FLOATS, PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array
from xladev.testing.conformance.case import Build, Case, cuttable, given
from xladev.testing.conformance.cells import Node, accepts, elementwise, of_type

UNARY = tuple(
    n for n, op in OPSET.items()
    if op.elementwise and op.arity == 1 and not any(a.required for a in op.attrs)
    and n not in ("convert", "bitcast-convert", "copy") and accepts(elementwise(n, 1, (1,)), dt.F32)
)  # fmt: skip
FP8 = tuple(t for t in FLOATS if t.bits == 8)
F32_COUNT = 1 << 17
F32_STRIDE = ((1 << 32) // F32_COUNT) | 1


def all_of(dtype: PrimitiveType) -> Array:
    """Every bit pattern of an 8- or 16-bit type."""
    codes = np.arange(1 << dtype.bits, dtype=np.uint32)
    return codes.astype(f"u{dtype.bits // 8}").view(dtype.np)


def spread_over_f32() -> Array:
    codes = (np.arange(F32_COUNT, dtype=np.uint64) * F32_STRIDE) % (1 << 32)
    return codes.astype(np.uint32).view(np.float32)


def of_arrays(opcode: str, values: Sequence[Array], dtypes: Sequence[PrimitiveType]) -> Build:
    """The opcode of each array, all in one program."""

    def build(b: HloBuilder) -> Node:
        made = [
            b.op(opcode, b.parameter(array(t, v.shape)))
            for t, v in zip(dtypes, values, strict=True)
        ]
        return made[0] if len(made) == 1 else b.op("tuple", *made)

    return build


def unary() -> Iterator[Case]:
    wide = {dt.BF16: all_of(dt.BF16), dt.F16: all_of(dt.F16), dt.F32: spread_over_f32()}
    for opcode in UNARY:
        for dtype, values in wide.items():
            yield Case(f"{opcode}-{dtype}-all", of_arrays(opcode, [values], [dtype]), opcode,
                       dtype.name, ("exhaustive",), inputs=given([values]))  # fmt: skip
        narrow = [t for t in FP8 if accepts(elementwise(opcode, 1, (1,)), t)]
        arrays = [all_of(t) for t in narrow]
        yield Case(f"{opcode}-fp8-all", of_arrays(opcode, arrays, narrow), opcode,
                   tags=("exhaustive", "lowprec"), inputs=given(arrays))  # fmt: skip


INTEGER = (
    "add", "subtract", "multiply", "mulhi", "divide", "remainder", "maximum", "minimum", "and",
    "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical", "power",
)  # fmt: skip
FLOAT = (
    "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "power", "atan2",
)  # fmt: skip


def pairs(dtype: PrimitiveType) -> tuple[Array, Array]:
    values = all_of(dtype)
    return np.repeat(values, 256).reshape(256, 256), np.tile(values, 256).reshape(256, 256)


def binary() -> Iterator[Case]:
    for dtype, opcodes in (
        (dt.S8, INTEGER), (dt.U8, INTEGER), (dt.F8E4M3FN, FLOAT), (dt.F8E5M2, FLOAT),
    ):  # fmt: skip
        both = pairs(dtype)
        for opcode in opcodes:
            template = elementwise(opcode, 2, (256, 256))
            yield Case(
                f"{opcode}-{dtype}-pairs", of_type(template, dtype), opcode,
                dtype.name, ("exhaustive",), inputs=given(both),
            )  # fmt: skip


def converted(dtype: PrimitiveType, size: int, targets: Sequence[PrimitiveType]) -> Build:
    def build(b: HloBuilder) -> Node:
        x = b.parameter(array(dtype, (size,)))
        return b.op("tuple", *(b.op("convert", x, shape=array(t, (size,))) for t in targets))

    return build


TARGETS = (dt.PRED, dt.S4, dt.S8, dt.S32, dt.U8, dt.U64, dt.F16, dt.BF16, dt.F32, dt.F64, *FP8)


def conversions() -> Iterator[Case]:
    for dtype in (dt.BF16, dt.F16, dt.S16, *FP8):
        yield cuttable(partial(conversion, dtype))


def conversion(dtype: PrimitiveType, factor: int) -> Case:
    """Every pattern, in as many runs as ``factor`` says."""
    targets = [t for t in TARGETS if t is not dtype]
    parts = np.split(all_of(dtype), factor)
    program = converted(dtype, parts[0].size, targets)
    return Case(f"convert-{dtype}-all", program, "convert", dtype.name, ("exhaustive",),
                inputs=given(*([part] for part in parts)))  # fmt: skip


CASES = (*unary(), *binary(), *conversions())
