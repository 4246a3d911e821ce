"""Transposes products by exchanging their operands, where the target rejects transposes.

``transpose(scale * (a @ b))`` is ``scale * (b' @ a')``, which a device without transposes computes
itself; else the value would go to the host and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from xladev.compiler.partition.assignment import CompileTarget, control_computations
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.constant_folding import as_constant
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.pass_ import HloModulePass

_DEEPEST = 16
"""Elementwise instructions that a transpose is moved through."""


@dataclass(frozen=True, slots=True)
class RejectedTransposes(HloModulePass):
    """Replaces a rejected transpose of a matrix by the product, with operands exchanged.

    Attributes:
        target: whose answers count; None, where no platform is named, changes nothing.
    """

    name = "rejected-transposes"
    target: CompileTarget | None = None

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            PluginError: the compiler raised.
        """
        target = self.target
        everything = (i for computation in module.computations for i in computation.instructions)
        if target is None or not any(map(_swaps_two, everything)):
            return module
        inside = {computation.name for computation in control_computations(module)}
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            if computation.name not in inside:
                return computation
            made = _made(computation, target)
            return without_dead(rebuild(computation, made), effects) if made else computation

        return map_computations(module, change)


def _made(
    computation: HloComputation, target: CompileTarget
) -> Mapping[HloInstruction, HloInstruction]:
    transposes = [i for i in computation.instructions if _swaps_two(i) and not target.supports(i)]
    if not transposes:
        return {}
    sinking = _Sinking(users_of(computation), target, computation.root)
    found = ((i, sinking.transposed(i.operands[0], i, _DEEPEST)) for i in transposes)
    return {i: made for i, made in found if made is not None}


def _swaps_two(i: HloInstruction) -> bool:
    return i.opcode == "transpose" and i["dimensions"] == (1, 0) and not i.shape.is_dynamic


class _Sinking:
    """Moves transposes down to products.

    Args:
        users: of each instruction.
        target: takes what is made, or it is not made.
        root: has a use more.
    """

    def __init__(self, users: Users, target: CompileTarget, root: HloInstruction) -> None:
        self._users, self._target, self._root = users, target, root

    def transposed(
        self, i: HloInstruction, outer: HloInstruction, depth: int
    ) -> HloInstruction | None:
        """The transpose of a value; None where it takes more than exchanging operands.

        Args:
            i: the value, a matrix.
            outer: the transpose for whose sake this is, on whose device it has to be.
            depth: how much further to look.
        """
        if i.opcode == "constant":
            return as_constant(_turned(i), np.ascontiguousarray(i["literal"].array.T))
        if not depth or i.note.device != outer.note.device or not self._is_used_once(i):
            return None
        made = self._product(i) if i.opcode == "dot" else self._elementwise(i, outer, depth)
        return made if made is not None and self._target.supports(made) else None

    def _is_used_once(self, i: HloInstruction) -> bool:
        return len(self._users[i]) == 1 and i is not self._root

    def _product(self, i: HloInstruction) -> HloInstruction | None:
        dims = DotDims.of(i)
        if dims.lhs_batch or len(i.operands) != 2 or i["algorithm"] != "dot_unset":
            return None
        if any(o.shape.rank - len(dims.lhs_contracting) != 1 for o in i.operands):
            return None
        numbers = {
            "lhs_contracting_dims": dims.rhs_contracting,
            "rhs_contracting_dims": dims.lhs_contracting,
            "operand_precision": tuple(reversed(i["operand_precision"])),
        }
        left, right = i.operands
        return replace(_turned(i), operands=(right, left), attrs={**i.attrs, **numbers})

    def _elementwise(
        self, i: HloInstruction, outer: HloInstruction, depth: int
    ) -> HloInstruction | None:
        if not i.op.elementwise or any(o.shape.dims != i.shape.dims for o in i.operands):
            return None
        operands = [self.transposed(o, outer, depth - 1) for o in i.operands]
        if all(o.opcode == "constant" for o in i.operands) or None in operands:
            return None
        return replace(_turned(i), operands=tuple(o for o in operands if o is not None))


def _turned(i: HloInstruction) -> HloInstruction:
    """The instruction with the transpose of its shape, row by row."""
    shape = replace(i.shape, dims=(i.shape.dims[1], i.shape.dims[0]), layout=None)
    return replace(i, shape=shape.with_default_layout())
