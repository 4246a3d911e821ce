"""A kernel cut off after each of its instructions in turn, down to the whole."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opset import opdef
from xladev.testing.verdict import Case


def prefixes(case: Case) -> Iterator[tuple[HloInstruction, Case]]:
    """Each instruction of a fusion, and the fusion of it and all that it is computed from.

    Operands are computed in the kernel that reads them, so that what is generated is what the whole
    kernel has; an instruction that is given its operands in memory may be generated another way.

    Args:
        case: a program whose result is a fusion of its parameters, and its arguments.
    """
    module, arguments = case
    fusion = module.entry.root
    for instruction in fusion["calls"].instructions:
        if instruction.opcode not in ("parameter", "constant", "tuple"):
            yield instruction, (_cut(module, fusion, instruction), arguments)


def _cut(module: HloModule, fusion: HloInstruction, last: HloInstruction) -> HloModule:
    """The program with a fusion that ends with one of its instructions; parameters all stay."""
    body: HloComputation = fusion["calls"]
    needed = _ancestors(last)
    kept = tuple(i for i in body.instructions if i in needed or i.opcode == "parameter")
    attrs = {"kind": fusion["kind"], "calls": HloComputation(body.name, kept, last)}
    root = HloInstruction(opdef("fusion"), last.shape, fusion.operands, attrs, fusion.name)
    before = tuple(i for i in module.entry.instructions if i is not fusion)
    entry = HloComputation(module.entry.name, (*before, root), root)
    return HloModule(f"{module.name}.to.{last.name}", entry, module.header)


def _ancestors(last: HloInstruction) -> frozenset[HloInstruction]:
    found, waiting = {last}, [last]
    while waiting:
        new = [o for o in waiting.pop().operands if o not in found]
        found.update(new)
        waiting.extend(new)
    return frozenset(found)
