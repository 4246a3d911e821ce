"""Recipes for products: dot, ragged and scaled dot, convolution."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ConvDims, WindowDim
from xladev.hlo.dtype import ARRAY_TYPES, FLOATS, PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.testing.draw import Dims, Draw, Recipe


def _dot(d: Draw) -> HloInstruction:
    lhs = d.any_value(ARRAY_TYPES)
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
    return d.op(
        "dot",
        lhs,
        rhs,
        shape=array(_product_type(d, dtype), (*result, *rest)),
        lhs_batch_dims=batch,
        lhs_contracting_dims=contract,
        rhs_batch_dims=tuple(at[n] for n in range(len(batch))),
        rhs_contracting_dims=tuple(at[len(batch) + n] for n in range(len(contract))),
    )


def _product_type(d: Draw, dtype: PrimitiveType) -> PrimitiveType:
    """The type of the operands, or a wider one for narrow operands."""
    if dtype is dt.PRED or dtype.bits > 8:
        return dtype
    wide = dt.F32 if dtype.is_float else dt.S32
    found: PrimitiveType = d.pick((dtype, wide, wide))
    return found


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
    dtype = d.dtype(ARRAY_TYPES)
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


def _group_sizes(d: Draw, groups: int, most: int) -> HloInstruction:
    """Sizes from 0 to ``most``; together they may be less or more than there are slices."""
    dtype = d.pick((dt.S32, dt.S64, dt.S8))
    low, high = (d.builder.constant(x, dtype) for x in (0, most))
    return d.op("clamp", low, d.value(dtype, (groups,), exact=True), high)


def _ragged_dot(d: Draw) -> HloInstruction:
    """Groups of rows, of terms or of batches."""
    mode = d.pick(("free", "contracting", "batch"))
    dtype = d.dtype(ARRAY_TYPES)
    m, k, n, groups = d.integer(1, 8), d.integer(1, 6), d.integer(1, 5), d.integer(1, 4)
    batch: Dims = (d.integer(1, 3),) if mode == "batch" or d.chance(0.3) else ()
    at = len(batch)
    ragged = {"free": at, "contracting": at + 1, "batch": 0}[mode]
    lhs = d.value(dtype, (*batch, m, k))
    group: Dims = (groups,) if mode == "free" else ()
    rhs = d.value(dtype, (*group, *batch, k, n))
    shift = len(group)
    return d.op(
        "ragged-dot",
        lhs,
        rhs,
        _group_sizes(d, groups, lhs.shape.dims[ragged]),
        lhs_batch_dims=tuple(range(at)),
        rhs_batch_dims=tuple(range(shift, shift + at)),
        lhs_contracting_dims=(at + 1,),
        rhs_contracting_dims=(shift + at,),
        lhs_ragged_dims=(ragged,),
        rhs_group_dims=(0,) if group else (),
    )


def _scaled_dot(d: Draw) -> HloInstruction:
    """Blocks of elements that share a scale; a scalar scale stands for all."""
    dtype = d.pick(FLOATS)
    scale = d.pick((dt.F8E8M0FNU, dt.BF16, dt.F32, d.pick(FLOATS)))
    blocks, width = d.integer(1, 3), d.pick((1, 2, 4))
    m, k, n = d.integer(1, 4), blocks * width, d.integer(1, 4)
    scales = [(m, blocks), (blocks, n)]
    lhs_scale, rhs_scale = (d.value(scale, () if d.chance(0.2) else dims) for dims in scales)
    return d.op(
        "scaled-dot",
        d.value(dtype, (m, k)),
        d.value(dtype, (k, n)),
        lhs_scale,
        rhs_scale,
        shape=array(d.pick((dt.F32, dt.BF16)), (m, n)),
        lhs_contracting_dims=(1,),
        rhs_contracting_dims=(0,),
    )


PRODUCTS: Mapping[str, Recipe] = MappingProxyType(
    {
        "dot": _dot,
        "convolution": _convolution,
        "ragged-dot": _ragged_dot,
        "scaled-dot": _scaled_dot,
    }
)
"""Recipe by opcode."""
