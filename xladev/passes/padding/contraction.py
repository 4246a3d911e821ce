"""Padding of dots and convolutions: what is not live becomes zero where it would be summed."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.passes.expansions.emit import Emitter
from xladev.passes.padding import sizes as sz
from xladev.passes.padding.values import Padded, Rules, Size, Value, arrays, masked, padded


def _zeroed_pair(
    e: Emitter, lhs: Padded, rhs: Padded, pairs: Sequence[tuple[int, int]]
) -> tuple[HloInstruction, HloInstruction]:
    """Both data, zero in paired dimensions where either is not live."""
    shared = [(a, b) for a, b in pairs if lhs.size(a) is not None or rhs.size(b) is not None]
    left = _with_sizes(lhs, {a: rhs.size(b) for a, b in shared})
    right = _with_sizes(rhs, {b: lhs.size(a) for a, b in shared})
    return (
        masked(e, left, [a for a, _ in shared], 0),
        masked(e, right, [b for _, b in shared], 0),
    )


def _with_sizes(value: Padded, other: dict[int, Size]) -> Padded:
    """The value with sizes of its partner where it has none itself."""
    rank = value.data.shape.rank
    return padded(value.data, [value.size(d) or other.get(d) for d in range(rank)])


def _dot(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value | None:
    if len(values) != 2:
        return None
    lhs, rhs = arrays(values)
    dims = DotDims.of(i)
    pairs = list(zip(dims.lhs_contracting, dims.rhs_contracting, strict=True))
    left, right = _zeroed_pair(e, lhs, rhs, pairs)
    data = e.op("dot", left, right, shape=i.shape.static().without_layout(), **i.attrs)
    batch = zip(dims.lhs_batch, dims.rhs_batch, strict=True)
    sizes = [lhs.size(a) or rhs.size(b) for a, b in batch]
    sizes += [lhs.size(d) for d in dims.lhs_free(lhs.data.shape.rank)]
    sizes += [rhs.size(d) for d in dims.rhs_free(rhs.data.shape.rank)]
    return padded(data, sizes)


def _convolution(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value | None:
    if len(values) != 2 or i["feature_group_count"] > 1 or i["batch_group_count"] > 1:
        return None
    lhs, rhs = arrays(values)
    d: ConvDims = i["dim_labels"]
    if any(rhs.size(k) is not None for k in d.kernel_spatial):
        return None
    left, right = _zeroed_pair(e, lhs, rhs, [(d.input_feature, d.kernel_input_feature)])
    left = masked(e, Padded(left, lhs.sizes), d.input_spatial, 0)
    data = e.op("convolution", left, right, shape=i.shape.static().without_layout(), **i.attrs)
    sizes: list[Size] = [None] * i.shape.rank
    sizes[d.output_batch] = lhs.size(d.input_batch)
    sizes[d.output_feature] = rhs.size(d.kernel_output_feature)
    for source, target, window in zip(d.input_spatial, d.output_spatial, i["window"], strict=True):
        size = lhs.size(source)
        if size is not None:
            sizes[target] = sz.after_window(e, size, window)
    return padded(data, sizes)


RULES: Rules = MappingProxyType({"convolution": _convolution, "dot": _dot})
