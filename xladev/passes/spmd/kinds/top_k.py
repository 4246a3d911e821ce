"""The largest elements of lines that are cut: those of each part, and of these the largest."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array, flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.spmd.held import local_shape
from xladev.passes.spmd.local_builder import LocalBuilder
from xladev.passes.spmd.operation import Operation, local_note


def is_top_k(i: HloInstruction) -> bool:
    """True for the opcode, and for the call of that name."""
    return i.opcode == "topk" or (i.opcode == "custom-call" and i["custom_call_target"] == "TopK")


def rule(i: HloInstruction) -> FactorRule | None:
    """Lines pass; what is chosen from is divided, each device choosing from its part."""
    if len(i.operands) != 1:
        return None
    x, results = i.operands[0].shape, flattened_shapes(i.shape)
    b = RuleBuilder([x.rank], [s.rank for s in results])
    last = x.rank - 1
    for d in range(last):
        b.factor([d], [d] * len(results), x.dims[d])
    b.factor([last], [None] * len(results), x.dims[last], FactorKind.REDUCE)
    b.factor([None], [last] * len(results), results[0].dims[last], FactorKind.WHOLE)
    return b.build()


def may_cut(i: HloInstruction, rule: FactorRule, factor: int, atoms: Atoms, grid: Grid) -> bool:
    """True if every part has as many elements as are asked for, and no padding."""
    size, count = rule.sizes[factor], grid.count(atoms)
    k = flattened_shapes(i.shape)[0].dims[-1]
    return is_top_k(i) and size % count == 0 and size // count >= max(k, 1)


def combined(o: Operation, parts: Sequence[HloInstruction]) -> HloInstruction:
    """Values and indices, of those of all devices along the cut; the first of equals first."""
    i, b, atoms = o.instruction, o.b, o.division.partial
    values, indices = parts
    last = values.shape.rank - 1
    start = b.start(o.sharding(0), i.operands[0].shape.dims, last)
    places = b.add(indices, b.convert(start, indices.shape.element_type))
    every = b.all_gather(values, o.grid, atoms, last)
    numbers = b.all_gather(places, o.grid, atoms, last)
    attrs = dict(i.attrs)
    if attrs.get("operand_layout_constraints"):
        attrs["operand_layout_constraints"] = (every.shape,)
    shape = local_shape(i.shape, o.division.results)
    made = b.append(HloInstruction(i.op, shape, (every,), attrs, i.name, local_note(i)))
    largest, at = b.parts(made)
    return b.op("tuple", largest, _along_last(b, numbers, at))


def _along_last(b: LocalBuilder, x: HloInstruction, places: HloInstruction) -> HloInstruction:
    """Elements of each line at the places in a line of another array."""
    lines = tuple(range(x.shape.rank - 1))
    return b.op(
        "gather", x, places,
        shape=array(x.shape.element_type, places.shape.dims),
        offset_dims=(), collapsed_slice_dims=(x.shape.rank - 1,),
        start_index_map=(x.shape.rank - 1,), operand_batching_dims=lines,
        start_indices_batching_dims=lines, index_vector_dim=places.shape.rank,
        slice_sizes=(1,) * x.shape.rank,
    )  # fmt: skip
