"""Padding of reductions and sorts: what is not live must not take part."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Window, WindowDim
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.ops.reduction_parts import ReductionParts
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter
from xladev.passes.padding import sizes as sz
from xladev.passes.padding.elementwise import merged_sizes
from xladev.passes.padding.values import (
    Padded,
    Rules,
    Size,
    Value,
    arrays,
    is_live,
    masked,
    padded,
)


def _neutral(opcode: str, x: HloInstruction) -> complex | None:
    """What changes nothing when combined; None if unknown."""
    element_type = x.shape.element_type
    if opcode in ("add", "or", "xor"):
        return 0
    if opcode == "multiply" or (opcode == "and" and element_type is dt.PRED):
        return 1
    if opcode not in ("maximum", "minimum") or not (
        element_type.is_float and element_type.bits >= 16
    ):
        return None
    return float("-inf") if opcode == "maximum" else float("inf")


def _reduce(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    operands, parts = arrays(values), ReductionParts.of(i)
    count, dims, body = len(parts.arrays), parts.dims, parts.reducer
    rank = operands[0].data.shape.rank
    sizes = merged_sizes(operands[:count], rank)
    kept = [sizes[d] for d in range(rank) if d not in dims]
    inits = [o.data for o in operands[count:]]
    inputs = [padded(o.data, sizes) for o in operands[:count]]
    if all(sizes[d] is None for d in dims):
        return _reduced(e, i, parts, [x.data for x in inputs], inits, kept)
    neutral = _neutral(body.root.opcode, inputs[0].data) if monoid_of(body) else None
    if neutral is not None:
        return _reduced(e, i, parts, [masked(e, inputs[0], dims, neutral)], inits, kept)
    return _flagged_reduce(e, i, parts, inputs, inits, kept)


def _reduced(
    e: Emitter,
    i: HloInstruction,
    parts: ReductionParts,
    data: Sequence[HloInstruction],
    inits: Sequence[HloInstruction],
    kept: Sequence[Size],
) -> Value:
    made = e.op("reduce", *data, *inits, dimensions=parts.dims, to_apply=parts.reducer)
    if not i.shape.is_tuple:
        return padded(made, kept)
    return tuple(padded(part, kept) for part in e.parts(made))


def _flagged_reduce(
    e: Emitter,
    i: HloInstruction,
    parts: ReductionParts,
    inputs: Sequence[Padded],
    inits: Sequence[HloInstruction],
    kept: Sequence[Size],
) -> Value:
    """With one more operand that says what is live; the reducer skips the rest."""
    live = is_live(e, inputs[0], parts.dims)
    assert live is not None
    made = e.op(
        "reduce", *(x.data for x in inputs), live, *inits, e.scalar(True, dt.PRED),
        dimensions=parts.dims, to_apply=_flagged(parts.reducer),
    )  # fmt: skip
    results = [padded(part, kept) for part in e.parts(made)[:-1]]
    return tuple(results) if i.shape.is_tuple else results[0]


def _flagged(body: HloComputation) -> HloComputation:
    """The reducer on values with flags: those whose flag is off do not take part."""
    e = Emitter(f"{body.name}.flagged")
    count = len(body.parameters) // 2
    left = [e.parameter(p.shape) for p in body.parameters[:count]]
    left_live = e.parameter(array(dt.PRED))
    right = [e.parameter(p.shape) for p in body.parameters[count:]]
    right_live = e.parameter(array(dt.PRED))
    made = e.op("call", *left, *right, to_apply=body)
    results = e.parts(made) if made.shape.is_tuple else [made]
    both = e.op("and", left_live, right_live)
    chosen = [
        e.select(both, f, e.select(left_live, a, b))
        for f, a, b in zip(results, left, right, strict=True)
    ]
    return e.build(e.op("tuple", *chosen, e.op("or", left_live, right_live)))


def _reduce_window(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    """What is not live becomes the initial value, which is what windows see past the end."""
    operands, parts = arrays(values), ReductionParts.of(i)
    count, window = len(parts.arrays), parts.window
    rank = operands[0].data.shape.rank
    sizes = merged_sizes(operands[:count], rank)
    data = [
        masked(e, padded(o.data, sizes), range(rank), init.data)
        for o, init in zip(operands[:count], operands[count:], strict=True)
    ]
    made = e.op(
        "reduce-window", *data, *(o.data for o in operands[count:]),
        window=window, to_apply=parts.reducer,
    )  # fmt: skip
    after = _window_sizes(e, sizes, window)
    if not i.shape.is_tuple:
        return padded(made, after)
    return tuple(padded(part, after) for part in e.parts(made))


def _window_sizes(e: Emitter, sizes: Sequence[Size], window: Window) -> list[Size]:
    return [
        size if size is None or part == WindowDim(1) else sz.after_window(e, size, part)
        for size, part in zip(sizes, window, strict=True)
    ]


def _sort(e: Emitter, i: HloInstruction, values: Sequence[Value]) -> Value:
    """What is not live goes to the end, by one more key."""
    operands = arrays(values)
    (axis,) = i["dimensions"]
    sizes = merged_sizes(operands, operands[0].data.shape.rank)
    data = [o.data for o in operands]
    body: HloComputation = i["to_apply"]
    live = is_live(e, padded(data[0], sizes), (axis,))
    if live is not None:
        data, body = [*data, live], _live_first(body)
    made = e.op("sort", *data, dimensions=(axis,), is_stable=i["is_stable"], to_apply=body)
    parts = e.parts(made) if len(data) > 1 else [made]
    kept = [padded(part, sizes) for part in parts[: len(operands)]]
    return tuple(kept) if i.shape.is_tuple else kept[0]


def _live_first(comparator: HloComputation) -> HloComputation:
    e = Emitter(f"{comparator.name}.live")
    given = [e.parameter(p.shape) for p in comparator.parameters]
    left, right = e.parameter(array(dt.PRED)), e.parameter(array(dt.PRED))
    before = e.op("call", *given, to_apply=comparator)
    same = e.compare("EQ", left, right)
    return e.build(e.select(same, before, left))


RULES: Rules = MappingProxyType({"reduce": _reduce, "reduce-window": _reduce_window, "sort": _sort})
