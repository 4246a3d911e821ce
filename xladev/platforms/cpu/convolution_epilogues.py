"""Joins convolutions with the loops that alone read their results, once kernels are formed.

The result of a convolution is read again while it is in the cache, and a loop of less than 50
microseconds is shared among threads where the convolution is. Results that are written past the
caches stay apart: sums of a joined kernel go to memory first, whose lines would be read for it.
Runs after constants were packed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev import instrument
from xladev.codegen.elemental.vectors import is_row_major
from xladev.codegen.llvm import TargetTraits
from xladev.codegen.row_program import row_program
from xladev.compiler.buffers.in_place import read_at_own_index
from xladev.compiler.fusion.instruction_fusion import (
    MAX_GROUP,
    controlled,
    is_kernel,
    kernel_programs,
    without_dead,
)
from xladev.compiler.plan.kernel_table import kernel_computation
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import Users, map_computations, rebuild, users_of
from xladev.passes.pass_ import HloModulePass
from xladev.platforms.cpu.codegen.products.epilogue import CORE
from xladev.platforms.cpu.codegen.products.single_pixel import is_single_pixel
from xladev.platforms.cpu.codegen.products.windows import window_plan

PASS = "convolution-epilogues"
_SIMPLE = frozenset({"parameter", "constant", "broadcast"})
"""Opcodes of a loop that goes on from a convolution, besides elementwise ones."""


@dataclass(frozen=True, slots=True)
class ConvolutionEpilogues(HloModulePass):
    """Makes one kernel of a convolution and the elementwise kernel that alone reads its result.

    Attributes:
        target: says how long vectors are.
    """

    name = PASS
    only_for = frozenset({CORE})
    target: TargetTraits

    def run(self, module: HloModule) -> HloModule:
        """The module, its kernels formed, with joined ones."""
        programs = kernel_programs(module)
        changed = map_computations(module, lambda c: self._join(c) if c.name in programs else c)
        return module if changed is module else with_unique_names(changed)

    def _join(self, computation: HloComputation) -> HloComputation:
        users, alone = users_of(computation), controlled(computation)
        replacements: dict[HloInstruction, HloInstruction] = {}
        for loop in computation.instructions:
            if loop in alone or not _is_loop(loop):
                continue
            read = [o for o in loop.operands if self._goes_on(o, loop, users, alone)]
            if read and read[0] is not computation.root:
                why = f"{read[0].name} goes on with it, block by block"
                instrument.decision(self.name, loop.name, why)
                replacements[loop] = _joined(read[0], loop)
        return without_dead(rebuild(computation, replacements)) if replacements else computation

    def _goes_on(
        self, core: HloInstruction, loop: HloInstruction, users: Users, alone: set[HloInstruction]
    ) -> bool:
        """Whether the kernel of a convolution can go on with a loop."""
        if users[core] != (loop,) or core in alone or core.note.device != loop.note.device:
            return False
        if core.opcode not in (CORE, "fusion"):
            return False
        root = kernel_computation(core).root
        if root.opcode != CORE or not is_row_major(core.shape):
            return False
        if core.shape.dims != loop.shape.dims or not is_row_major(loop.shape):
            return False
        types = {root.shape.element_type, loop.shape.element_type}
        plan = window_plan(root)
        if len(types) > 1 or plan is None or is_single_pixel(plan) or plan.is_non_temporal:
            return False
        row = core.shape.dims[-1]
        is_whole = plan.is_depthwise or row <= plan.kind(self.target.vector_nbytes).width
        if not is_whole and any(
            o.shape.dims == core.shape.dims for o in loop.operands if o is not core
        ):
            return False  # parts of rows of an array that is in no near cache
        body = kernel_computation(loop)
        mine = [p for p, o in zip(body.parameters, loop.operands, strict=True) if o is core]
        own = read_at_own_index(body, (body.root,))
        return plan.fits(self.target.vector_nbytes) and all(p in own for p in mine)


def _is_loop(i: HloInstruction) -> bool:
    """Whether a kernel computes each element of its one result from elements at its index."""
    if not is_kernel(i) or not i.shape.is_array or not (i.opcode == "fusion" or i.op.elementwise):
        return False
    if any(not o.shape.is_array for o in i.operands):
        return False
    body = kernel_computation(i)
    plain = all(each.op.elementwise or each.opcode in _SIMPLE for each in body.instructions)
    is_short = len(body.instructions) <= MAX_GROUP
    return plain and is_short and body.root.op.elementwise and row_program(body) is None


def _joined(core: HloInstruction, loop: HloInstruction) -> HloInstruction:
    """The kernel of both."""
    outside = list(dict.fromkeys(o for o in (*core.operands, *loop.operands) if o is not core))
    parameters = {
        value: HloInstruction(
            opdef("parameter"), value.shape, (), {"parameter_number": n}, f"param_{n}"
        )
        for n, value in enumerate(outside)
    }
    first = kernel_computation(core)
    given = [parameters[o] for o in core.operands]
    made = dict(zip(first.parameters, given, strict=True))
    summed = _inlined(first, made)
    second = kernel_computation(loop)
    given = [summed if o is core else parameters[o] for o in loop.operands]
    after = dict(zip(second.parameters, given, strict=True))
    root = _inlined(second, after)
    inside = [*made.values(), *after.values()]
    instructions = tuple(dict.fromkeys((*parameters.values(), *inside)))
    body = HloComputation(f"fused.{loop.name}.{core.name}", instructions, root)
    attrs = {"kind": "kOutput", "calls": body}
    name = loop.name if loop.opcode == "fusion" else f"{loop.name}.fusion"
    return HloInstruction(opdef("fusion"), loop.shape, tuple(outside), attrs, name, loop.note)


def _inlined(
    computation: HloComputation, made: dict[HloInstruction, HloInstruction]
) -> HloInstruction:
    """The root of a computation with values in place of its parameters; adds all of it."""
    for i in computation.instructions:
        if i not in made:
            made[i] = replace(i, operands=tuple(made[o] for o in i.operands))
    return made[computation.root]
