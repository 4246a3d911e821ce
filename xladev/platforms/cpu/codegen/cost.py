"""How long a kernel takes in one thread, by orders of magnitude: whether it is worth several."""

from __future__ import annotations

from xladev.codegen.kernel_spec import KernelSpec
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opdef import OpDef
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.codegen.lapack.calls import LAPACK_OPCODES, lapack_ns

NBYTES_PER_NS = 10.0
"""Bytes that one processor reads or writes, from memory or a far cache."""
PRODUCTS_PER_NS = 30.0
"""Products, and their sums, of one processor in register tiles of f32."""
SIMPLE_NS = 0.05
"""One element of an opcode that is one instruction, in vectors."""

EXPENSIVE_NS = 0.5
"""One element of an opcode that is expensive, or far from the next one in memory."""


def estimated_ns(spec: KernelSpec) -> float:
    """Nanoseconds of one kernel in one thread."""
    if spec.computation.root.opcode == "dynamic-update-slice" and spec.in_place:
        return _size(spec.computation.root.operands[1].shape) * EXPENSIVE_NS
    memory = sum(shape.nbytes for shape in (*spec.operands, *spec.results)) / NBYTES_PER_NS
    return max(memory, sum(map(_instruction_ns, spec.computation.instructions)))


def _size(shape: Shape) -> int:
    return sum(leaf.size for _, leaf in shape.leaves() if leaf.is_array)


def _instruction_ns(i: HloInstruction) -> float:
    op = i.op
    if op.name in LAPACK_OPCODES:
        return lapack_ns(i) or 0.0
    if op.over_operands:
        return max(_size(o.shape) for o in i.operands) * (op.expense * SIMPLE_NS)
    if op.cost is not None and not op.elementwise:
        work = op.cost(i.shape, tuple(o.shape for o in i.operands), i)
        return work.flops / 2 / PRODUCTS_PER_NS
    return _size(i.shape) * _element_ns(op)


def _element_ns(op: OpDef) -> float:
    """One element of the result, of three grades: memory hides what is between them."""
    if op.is_expensive:
        return EXPENSIVE_NS
    return SIMPLE_NS if op.expense else 0.0
