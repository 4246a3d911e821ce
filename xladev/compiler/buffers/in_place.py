"""Which operand of a kernel may share its buffer with a result."""

from __future__ import annotations

from xladev.codegen.row_program import row_program
from xladev.hlo.ir import HloComputation, HloInstruction

_UPDATES = frozenset({"dynamic-update-slice", "scatter"})


def in_place_pairs(computation: HloComputation) -> frozenset[tuple[int, int]]:
    """Pairs (result, operand) for which each kernel of ``computation`` may work in place.

    An update may overwrite the array it updates, if it reads that array in no other way. A loop may
    overwrite an operand that it reads only at the index it is about to write; a row program, one
    that it reads only in the row that it is about to write. None may where a kernel goes on from a
    convolution, which may be written to the result first.
    """
    root = computation.root
    if root.opcode in _UPDATES:
        return _updated(computation)
    if any(i.opcode == "convolution" for i in computation.instructions):
        return frozenset()
    roots = root.operands if root.opcode == "tuple" else (root,)
    rows = row_program(computation)
    if len({(r.shape.dims, r.shape.minor_to_major) for r in roots}) != 1:
        return frozenset()
    safe = read_at_own_index(computation, roots) if rows is None else rows.read_by_rows()
    return frozenset(
        (result, number)
        for result, r in enumerate(roots)
        for number, parameter in enumerate(computation.parameters)
        if parameter in safe
        and parameter.shape.dims == r.shape.dims
        and parameter.shape.minor_to_major == r.shape.minor_to_major
        and parameter.shape.element_type.host_nbytes == r.shape.element_type.host_nbytes
    )


def _updated(computation: HloComputation) -> frozenset[tuple[int, int]]:
    root = computation.root
    count = 1 if root.opcode == "dynamic-update-slice" else (len(root.operands) - 1) // 2
    pairs: set[tuple[int, int]] = set()
    for result, operand in enumerate(root.operands[:count]):
        uses = sum(i.operands.count(operand) for i in computation.instructions)
        if operand in computation.parameters and uses == 1:
            pairs.add((result, computation.parameters.index(operand)))
    return frozenset(pairs)


def read_at_own_index(
    computation: HloComputation, roots: tuple[HloInstruction, ...]
) -> set[HloInstruction]:
    """Parameters that are read through elementwise opcodes of the roots' dimensions alone."""
    dims = roots[0].shape.dims
    direct: set[HloInstruction] = set(roots)
    indirect: set[HloInstruction] = set()
    for i in reversed(computation.instructions):
        if i not in direct and i not in indirect:
            continue
        for operand in i.operands:
            same = i in direct and i.op.elementwise and operand.shape.dims == dims
            if same or i.opcode == "tuple":
                direct.add(operand)
            if not same or i in indirect:
                indirect.add(operand)
    return {p for p in computation.parameters if p in direct and p not in indirect}
