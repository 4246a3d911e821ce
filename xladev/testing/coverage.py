"""Which opcodes ran on which element types: counted over programs, printed as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from xladev.errors import ShapeError
from xladev.hlo.dtype import ARRAY_TYPES, PrimitiveType
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.opdef import OpCall, OpDef
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array

Coverage = Counter[tuple[str, str]]
"""How many instructions of an opcode had a leaf of an element type, by (opcode, type).

Instructions without arrays, such as those of tokens, count under the type ``-``.
"""

_NONE = "-"


def coverage_of(module: HloModule) -> Coverage:
    """Opcodes and the element types of their operands and results, in all computations."""
    counts: Coverage = Counter()
    for computation in module.computations:
        for instruction in computation.instructions:
            counts.update((instruction.opcode, name) for name in _types(instruction))
    return counts


def _types(instruction: HloInstruction) -> set[str]:
    shapes = (instruction.shape, *(o.shape for o in instruction.operands))
    return {
        leaf.element_type.name for shape in shapes for _, leaf in shape.leaves() if leaf.is_array
    } or {_NONE}


@cache
def accepted_types(opcode: str) -> frozenset[str]:
    """Types that the shape rule takes for all operands; every type where that says too little."""
    op = OPSET[opcode]
    every = frozenset(t.name for t in ARRAY_TYPES)
    if not op.elementwise or op.arity not in (1, 2) or any(a.required for a in op.attrs):
        return every
    return frozenset(t.name for t in ARRAY_TYPES if _takes(op, t)) or every


def _takes(op: OpDef, dtype: PrimitiveType) -> bool:
    operands = (array(dtype),) * op.arity_range[0]
    try:
        return op.infer is not None and op.infer(OpCall(op, operands, {})).is_array
    except ShapeError:
        return False


def table(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """One row per opcode, one column per type, and what was never drawn.

    A cell holds the number of digits of its count, ``.`` where there is none, and a blank where the
    shape rule refuses the type.
    """
    names = [t.name for t in ARRAY_TYPES]
    for at in range(max(map(len, names))):
        yield f"{'':25}" + "".join(f"{name[at : at + 1]:1}" for name in names).rstrip()
    drawn = {opcode for opcode, _ in counts}
    for opcode in sorted(drawn):
        yield f"{opcode:25}" + "".join(_cell(counts, opcode, name) for name in names).rstrip()
    cells = sum(1 for _, name in counts if name != _NONE)
    yield f"{len(drawn)} of {len(OPSET)} opcodes, {cells} cells of opcode and element type"
    yield from _gaps(counts, names)


def _cell(counts: Mapping[tuple[str, str], int], opcode: str, name: str) -> str:
    count = counts.get((opcode, name), 0)
    if count:
        return str(min(len(str(count)), 9))
    return "." if name in accepted_types(opcode) else " "


def _gaps(counts: Mapping[tuple[str, str], int], names: list[str]) -> Iterator[str]:
    for opcode in OPSET:
        if not any(o == opcode for o, _ in counts):
            yield f"never drawn: {opcode}" + _because(OPSET[opcode].exempt)
    for opcode in OPSET:
        drawn = {name for o, name in counts if o == opcode}
        missing = [n for n in names if n in accepted_types(opcode) and n not in drawn]
        if missing and drawn - {_NONE}:
            kept = [n for n in names if n in drawn]
            few = len(kept) < len(missing)
            yield (
                f"types of {opcode}: "
                + ("only " if few else "not ")
                + " ".join(kept if few else missing)
            )


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
