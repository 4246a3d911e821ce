"""Recipes for opcodes that combine many elements: reductions, products, sorting, solvers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ConvDims, WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import INTEGERS, PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array, tuple_of
from xladev.testing.random_program import Dims, Draw, Recipe

_FLOATS = (dt.F32, dt.F64, dt.BF16, dt.F16)
_NUMBERS = (dt.F32, dt.F64, dt.BF16, dt.F16, dt.S32, dt.S8, dt.U8, dt.S64, dt.U32, dt.C64)
_ORDERED = (*_FLOATS, *INTEGERS)


def _reducer(d: Draw, dtype: PrimitiveType) -> HloComputation:
    if dtype is dt.PRED:
        return d.binary(d.pick(("and", "or", "xor")), dtype)
    if dtype.is_complex:
        return d.binary("add", dtype)
    opcodes = ["add", "add", "maximum", "minimum", "multiply"]
    if dtype.is_integral:
        opcodes += ["and", "or", "xor"]
    return d.binary(d.pick(opcodes), dtype)


def _reduce(d: Draw) -> HloInstruction:
    value = d.any_value((dt.PRED, *_NUMBERS, *INTEGERS))
    dtype = value.shape.element_type
    dimensions = d.subset(value.shape.rank)
    if d.chance(0.25):
        return _argument_of_largest(d, value, dimensions)
    init = d.value(dtype, ())
    return d.op("reduce", value, init, dimensions=dimensions, to_apply=_reducer(d, dtype))


def _argument_of_largest(d: Draw, value: HloInstruction, dimensions: Dims) -> HloInstruction:
    """A variadic reduce with a reducer of its own: the largest value and its index."""
    value = value if value.shape.element_type in INTEGERS else d.any_value(INTEGERS, exact=True)
    dimensions = tuple(x for x in dimensions if x < value.shape.rank)
    dtype = value.shape.element_type
    index = d.value(dt.S32, value.shape.dims, exact=True)

    def larger(b: HloBuilder) -> HloInstruction:
        a, i = b.parameter(array(dtype)), b.parameter(array(dt.S32))
        c, j = b.parameter(array(dtype)), b.parameter(array(dt.S32))
        ahead = b.op("compare", a, c, direction="GT")
        tie = b.op(
            "and", b.op("compare", a, c, direction="EQ"), b.op("compare", i, j, direction="LT")
        )
        keep = b.op("or", ahead, tie)
        return b.op("tuple", b.op("select", keep, a, c), b.op("select", keep, i, j))

    least = d.value(dtype, ())
    return d.op(
        "reduce",
        value,
        index,
        least,
        d.value(dt.S32, ()),
        dimensions=dimensions,
        to_apply=d.computation(larger),
    )


def _window(d: Draw, dims: Dims, *, dilate: bool = True) -> tuple[WindowDim, ...]:
    made: list[WindowDim] = []
    for size in dims:
        made.append(
            WindowDim(
                size=d.integer(1, max(min(size, 3), 1)),
                stride=d.integer(1, 2),
                pad_low=d.pick((0, 0, 1, 2, -1)) if size > 2 else d.integer(0, 1),
                pad_high=d.pick((0, 0, 1, 2, -1)) if size > 2 else d.integer(0, 1),
                base_dilation=d.pick((1, 1, 2)) if dilate else 1,
                window_dilation=d.pick((1, 1, 2)) if dilate else 1,
            )
        )
    return tuple(made)


def _reduce_window(d: Draw) -> HloInstruction:
    value = d.any_value((dt.PRED, *_NUMBERS))
    dtype = value.shape.element_type
    return d.op(
        "reduce-window",
        value,
        d.value(dtype, ()),
        window=_window(d, value.shape.dims),
        to_apply=_reducer(d, dtype),
    )


def _select_and_scatter(d: Draw) -> HloInstruction:
    operand = d.any_value((dt.F32, dt.S32, dt.F64, dt.BF16), exact=True)
    dims = operand.shape.dims
    window = tuple(
        WindowDim(
            d.integer(1, max(min(size, 3), 1)), d.integer(1, 2), d.integer(0, 1), d.integer(0, 1)
        )
        for size in dims
    )
    source = tuple(w.output_size(size) for w, size in zip(window, dims, strict=True))
    dtype = operand.shape.element_type
    scalar = array(dtype)

    def at_least(b: HloBuilder) -> HloInstruction:
        return b.op("compare", b.parameter(scalar), b.parameter(scalar), direction="GE")

    return d.op(
        "select-and-scatter",
        operand,
        d.value(dtype, source),
        d.value(dtype, ()),
        window=window,
        select=d.computation(at_least),
        scatter=d.binary("add", dtype),
    )


def _map(d: Draw) -> HloInstruction:
    value = d.any_value(_NUMBERS)
    other = d.value(value.shape.element_type, value.shape.dims)
    dtype = value.shape.element_type
    scalar = array(dtype)

    def body(b: HloBuilder) -> HloInstruction:
        x, y = b.parameter(scalar), b.parameter(scalar)
        return b.op("subtract", b.op("multiply", x, y), y)

    return d.op(
        "map",
        value,
        other,
        dimensions=tuple(range(value.shape.rank)),
        to_apply=d.computation(body),
    )


def _dot(d: Draw) -> HloInstruction:
    lhs = d.any_value((*_NUMBERS, dt.PRED, dt.S4, dt.F8E4M3FN))
    dims, rank = lhs.shape.dims, lhs.shape.rank
    roles = [d.pick(("batch", "contract", "contract", "free")) for _ in range(rank)]
    batch = tuple(x for x in range(rank) if roles[x] == "batch")
    contract = tuple(x for x in range(rank) if roles[x] == "contract")
    free = [d.integer(1, 5) for _ in range(d.integer(0, 2))]
    sizes = [dims[x] for x in (*batch, *contract)] + free
    order = d.permutation(len(sizes))
    rhs_dims = tuple(sizes[x] for x in order)
    at = {x: n for n, x in enumerate(order)}
    dtype = lhs.shape.element_type
    rhs = d.value(dtype, rhs_dims)
    result = tuple([dims[x] for x in batch] + [dims[x] for x in range(rank) if roles[x] == "free"])
    rest = [rhs_dims[n] for n in range(len(rhs_dims)) if order[n] >= len(batch) + len(contract)]
    target = d.pick((dtype, dt.S32)) if dtype in (dt.S8, dt.U8, dt.S4) else dtype
    target = dt.F32 if dtype is dt.F8E4M3FN else target
    return d.op(
        "dot",
        lhs,
        rhs,
        shape=array(target, (*result, *rest)),
        lhs_batch_dims=batch,
        lhs_contracting_dims=contract,
        rhs_batch_dims=tuple(at[n] for n in range(len(batch))),
        rhs_contracting_dims=tuple(at[len(batch) + n] for n in range(len(contract))),
    )


def _convolution(d: Draw) -> HloInstruction:
    rank = d.pick((0, 1, 2, 2, 2, 3))
    groups = d.pick((1, 1, 1, 2, 3))
    batches = 1 if groups > 1 else d.pick((1, 1, 1, 2))
    features = groups * d.integer(1, 3)
    outputs = groups * batches * d.integer(1, 3)
    batch = batches * d.integer(1, 2)
    spatial = [d.integer(1, 6) for _ in range(rank)]
    window = [_conv_window(d, size) for size in spatial]
    in_order, kernel_order, out_order = (d.permutation(rank + 2) for _ in range(3))
    lhs = _placed(in_order, [batch, features, *spatial])
    rhs = _placed(kernel_order, [features // groups, outputs, *(w.size for w in window)])
    dtype = d.dtype((dt.F32, dt.F64, dt.BF16, dt.F16, dt.S32, dt.S8, dt.C64))
    return d.op(
        "convolution",
        d.value(dtype, lhs),
        d.value(dtype, rhs),
        window=tuple(window),
        dim_labels=ConvDims(
            in_order[0], in_order[1], in_order[2:],
            kernel_order[0], kernel_order[1], kernel_order[2:],
            out_order[0], out_order[1], out_order[2:],
        ),
        feature_group_count=groups,
        batch_group_count=batches,
    )  # fmt: skip


def _conv_window(d: Draw, size: int) -> WindowDim:
    return WindowDim(
        size=d.integer(1, 3),
        stride=d.integer(1, 2),
        pad_low=d.pick((0, 1, 2)) if size < 3 else d.pick((0, 1, 2, -1)),
        pad_high=d.pick((0, 1, 2)) if size < 3 else d.pick((0, 1, 2, -1)),
        base_dilation=d.pick((1, 1, 2)),
        window_dilation=d.pick((1, 1, 2)),
        reversal=d.chance(0.2),
    )


def _placed(order: Dims, sizes: list[int]) -> Dims:
    """Dimensions where entry n of ``sizes`` is dimension ``order[n]``."""
    dims = [0] * len(order)
    for at, size in zip(order, sizes, strict=True):
        dims[at] = size
    return tuple(dims)


def _sort(d: Draw) -> HloInstruction:
    keys = d.any_value(_ORDERED, least_rank=1, exact=True)
    others = [
        d.value(d.pick((dt.F32, dt.S32, dt.PRED)), keys.shape.dims, exact=True)
        for _ in range(d.integer(0, 2))
    ]
    operands = [keys, *others]
    direction = d.pick(("LT", "GT"))
    total = "TOTALORDER" if keys.shape.element_type.is_float else None

    def before(b: HloBuilder) -> HloInstruction:
        scalars = [b.parameter(array(o.shape.element_type)) for o in operands for _ in range(2)]
        return b.op("compare", scalars[0], scalars[1], direction=direction, type=total)

    return d.op(
        "sort",
        *operands,
        dimensions=(d.integer(0, keys.shape.rank - 1),),
        is_stable=True,
        to_apply=d.computation(before),
    )


def _topk(d: Draw) -> HloInstruction:
    value = d.any_value((dt.F32, dt.S32, dt.BF16, dt.U8), least_rank=1, exact=True)
    if value.shape.dims[-1] == 0:
        value = d.new_value(dt.F32, (5,))
    k = d.integer(1, value.shape.dims[-1])
    return d.op("topk", value, k=k, largest=d.chance(0.5), is_stable=True)


def _fft(d: Draw) -> HloInstruction:
    kind = d.pick(("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = tuple(d.pick((1, 2, 3, 4, 5, 8, 12)) for _ in range(d.pick((1, 1, 1, 2, 3))))
    wide = d.chance(0.3)
    real, pair = (dt.F64, dt.C128) if wide else (dt.F32, dt.C64)
    dims = lengths
    if kind == "IRFFT":
        dims = (*lengths[:-1], lengths[-1] // 2 + 1)
    value = d.value(real if kind == "RFFT" else pair, (*d.pick(((), (2,), (1, 3))), *dims))
    return d.op("fft", value, fft_type=kind, fft_length=lengths)


def _positive_definite(d: Draw, dtype: PrimitiveType, batch: Dims, size: int) -> HloInstruction:
    """A + 2 n I, which has a Cholesky factor for elements of at most 1."""
    dims = (*batch, size, size)
    root = d.new_value(dtype, dims)
    row = d.op("iota", shape=array(dt.S32, dims), iota_dimension=len(dims) - 2)
    column = d.op("iota", shape=array(dt.S32, dims), iota_dimension=len(dims) - 1)
    diagonal = d.op("compare", row, column, direction="EQ")
    scale = d.builder.constant(2.0 * size, dtype)
    spread = d.op("broadcast", scale, shape=array(dtype, dims), dimensions=())
    bounded = d.op("tanh", root) if not dtype.is_complex else root
    return d.op(
        "add",
        bounded,
        d.op("multiply", spread, d.op("convert", diagonal, shape=array(dtype, dims))),
    )


def _cholesky(d: Draw) -> HloInstruction:
    dtype = d.pick((dt.F32, dt.F64))
    matrix = _positive_definite(d, dtype, d.pick(((), (2,))), d.integer(1, 5))
    return d.op("cholesky", matrix, lower=d.chance(0.5))


def _triangular_solve(d: Draw) -> HloInstruction:
    dtype = d.pick((dt.F32, dt.F64))
    size, other, left = d.integer(1, 5), d.integer(1, 3), d.chance(0.5)
    batch: Dims = d.pick(((), (2,)))
    matrix = _positive_definite(d, dtype, batch, size)
    right = d.value(dtype, (*batch, size, other) if left else (*batch, other, size))
    return d.op(
        "triangular-solve",
        matrix,
        right,
        left_side=left,
        lower=d.chance(0.5),
        unit_diagonal=d.chance(0.2),
        transpose_a=d.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    )


def _rng_bits(d: Draw) -> HloInstruction:
    algorithm, words = d.pick((("rng_three_fry", 2), ("rng_philox", 3)))
    state = d.value(dt.U64, (words,), exact=True)
    bits = array(d.pick((dt.U32, dt.U64, dt.U8, dt.U16)), d.dims())

    shape = tuple_of(state.shape.without_layout(), bits)
    return d.op("rng-bit-generator", state, shape=shape, algorithm=algorithm)


def _batch_norm(kind: str) -> Recipe:
    def recipe(d: Draw) -> HloInstruction:
        value = d.any_value((dt.F32, dt.F64), least_rank=2)
        if 0 in value.shape.dims:
            value = d.new_value(dt.F32, (3, 4))
        feature = d.integer(0, value.shape.rank - 1)
        dtype, dims = value.shape.element_type, (value.shape.dims[feature],)
        attrs: dict[str, Any] = {"epsilon": 0.5, "feature_index": feature}

        def vector() -> HloInstruction:
            return d.value(dtype, dims)

        def positive() -> HloInstruction:
            return d.op("abs", vector())

        if kind == "training":
            return d.op("batch-norm-training", value, vector(), vector(), **attrs)
        if kind == "inference":
            operands = (value, vector(), vector(), vector(), positive())
            return d.op("batch-norm-inference", *operands, **attrs)
        gradient = d.value(dtype, value.shape.dims)
        operands = (value, vector(), vector(), positive(), gradient)
        return d.op("batch-norm-grad", *operands, **attrs)

    return recipe


COMBINING: Mapping[str, Recipe] = MappingProxyType(
    {
        "reduce": _reduce,
        "reduce-window": _reduce_window,
        "select-and-scatter": _select_and_scatter,
        "map": _map,
        "dot": _dot,
        "convolution": _convolution,
        "sort": _sort,
        "topk": _topk,
        "fft": _fft,
        "cholesky": _cholesky,
        "triangular-solve": _triangular_solve,
        "rng-bit-generator": _rng_bits,
        "batch-norm-training": _batch_norm("training"),
        "batch-norm-inference": _batch_norm("inference"),
        "batch-norm-grad": _batch_norm("grad"),
    }
)
"""Recipe by opcode."""
