"""Matrix products for cuBLASLt: which dots it computes, and the layouts of their arrays.

HLO's arrays are row-major, the library's column-major: ``[m, k] x [k, n]`` is asked for as the
product of the transposes, in the other order. Dimensions of one kind are taken together where
they are contiguous; other products get their operands transposed first (`rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from types import MappingProxyType

from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.shape import Shape
from xladev.platforms.cuda.libraries.calls import Matmul, MatrixOperand

Types = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Rule:
    """How element types are computed.

    Attributes:
        compute: what products are accumulated in.
        multiple: that all dimensions are a multiple of.
        is_inner_first: both operands must have the inner dimension last (TN).
    """

    compute: str
    multiple: int = 1
    is_inner_first: bool = False


_FP8 = _Rule("32F", 16, is_inner_first=True)
_FP8_PAIRS = (("f8e4m3fn", "f8e4m3fn"), ("f8e4m3fn", "f8e5m2"), ("f8e5m2", "f8e4m3fn"))
RULES: Mapping[Types, _Rule] = MappingProxyType(
    {
        ("f32", "f32", "f32"): _Rule("32F"),
        ("f64", "f64", "f64"): _Rule("64F"),
        ("c64", "c64", "c64"): _Rule("32F"),
        ("c128", "c128", "c128"): _Rule("64F"),
        ("bf16", "bf16", "bf16"): _Rule("32F"),
        ("bf16", "bf16", "f32"): _Rule("32F"),
        ("f16", "f16", "f16"): _Rule("32F"),
        ("f16", "f16", "f32"): _Rule("32F"),
        ("s8", "s8", "s32"): _Rule("32I", 4, is_inner_first=True),
        **{(*pair, result): _FP8 for pair in _FP8_PAIRS for result in ("bf16", "f16", "f32")},
    }
)
"""What the library computes, by the types of both operands and the result."""

EPILOGUE_TYPES = frozenset({"f32", "bf16", "f16"})
"""Results that an epilogue may go on with."""
_TF32_ALGORITHMS = frozenset({"dot_tf32_tf32_f32"})


def matmul_support(dot: HloInstruction) -> Support:
    """Whether the library computes a dot, its operands transposed if need be."""
    rule = RULES.get(_types(dot))
    if len(dot.operands) != 2 or rule is None:
        return no(f"cuBLASLt has no product of {', '.join(_types(dot))}")
    if dot["algorithm"] not in ("dot_unset", *_TF32_ALGORITHMS):
        return no(f"cuBLASLt is not asked for algorithm {dot['algorithm']}")
    sizes = _sizes(dot)
    if not all(sizes):
        return no("nothing is multiplied")
    if any(n % rule.multiple for n in sizes[1:]):
        return no(f"cuBLASLt wants dimensions in multiples of {rule.multiple}")
    return YES


def is_inner_first(dot: HloInstruction) -> bool:
    """Whether the types of a dot want the inner dimension last in both operands."""
    return RULES[_types(dot)].is_inner_first


def as_matmul(
    dot: HloInstruction, *, allow_tf32: bool = False, deterministic: bool = False
) -> Matmul | None:
    """The call that computes a supported dot as its operands are; None if they are otherwise.

    Args:
        dot: `matmul_support` said yes.
        allow_tf32: products of f32 may round their operands to tf32.
        deterministic: the algorithm must not depend on a measurement.
    """
    rule = RULES[_types(dot)]
    batch, m, k, n = _sizes(dot)
    dims = DotDims.of(dot)
    lhs, rhs = (o.shape for o in dot.operands)
    left = _stored(
        lhs, dims.lhs_batch, dims.lhs_contracting, dims.lhs_free(lhs.rank), (batch, k, m)
    )
    right = _stored(
        rhs, dims.rhs_batch, dims.rhs_free(rhs.rank), dims.rhs_contracting, (batch, n, k)
    )
    if left is None or right is None:
        return None
    if rule.is_inner_first and (left[1], right[1]) != ("N", "T"):
        return None
    wants_tf32 = allow_tf32 or dot["algorithm"] in _TF32_ALGORITHMS
    fast = "_FAST_TF32" if wants_tf32 and _types(dot)[0] == "f32" else ""
    d = MatrixOperand(_types(dot)[2], n, m, n, m * n)
    return Matmul(
        right[0], left[0], d, right[1], left[1], batch, rule.compute + fast, "DEFAULT",
        deterministic,
    )  # fmt: skip


def _types(dot: HloInstruction) -> Types:
    names = [s.element_type.name for s in (*(o.shape for o in dot.operands[:2]), dot.shape)]
    return names[0], names[1], names[2]


def _sizes(dot: HloInstruction) -> tuple[int, int, int, int]:
    """Number of products, rows, inner dimension, columns."""
    dims = DotDims.of(dot)
    lhs, rhs = (o.shape for o in dot.operands[:2])

    def size(shape: Shape, which: Sequence[int]) -> int:
        return prod(shape.dims[d] for d in which)

    return (
        size(lhs, dims.lhs_batch),
        size(lhs, dims.lhs_free(lhs.rank)),
        size(lhs, dims.lhs_contracting),
        size(rhs, dims.rhs_free(rhs.rank)),
    )


def _stored(
    shape: Shape,
    batch: Sequence[int],
    rows: Sequence[int],
    columns: Sequence[int],
    sizes: tuple[int, int, int],
) -> tuple[MatrixOperand, str] | None:
    """A row-major array as stored matrices of ``rows x columns``, and whether to transpose them."""
    steps = _strides(shape)
    found = [_together(shape.dims, steps, which) for which in (batch, rows, columns)]
    if None in found:
        return None
    count, down, across = sizes
    stride, step_down, step_across = (f or 0 for f in found)
    stride = stride if count > 1 else 0
    name = shape.element_type.name
    if (down == 1 or step_down == 1) and _fits(step_across, down, across):
        return MatrixOperand(name, down, across, step_across if across > 1 else down, stride), "N"
    if (across == 1 or step_across == 1) and _fits(step_down, across, down):
        return MatrixOperand(name, across, down, step_down if down > 1 else across, stride), "T"
    return None


def _fits(leading: int, rows: int, columns: int) -> bool:
    """Whether columns that far apart do not overlap."""
    return columns == 1 or leading >= rows


def _strides(shape: Shape) -> tuple[int, ...]:
    """Elements from one index to the next, of each dimension of a row-major array."""
    return tuple(prod(shape.dims[d + 1 :]) for d in range(shape.rank))


def _together(dims: Sequence[int], steps: Sequence[int], which: Sequence[int]) -> int | None:
    """The step of dimensions taken as one, in their order; None if they do not are contiguous."""
    long = [d for d in which if dims[d] != 1]
    if any(steps[outer] != steps[inner] * dims[inner] for outer, inner in pairwise(long)):
        return None
    return steps[long[-1]] if long else 1
