"""Root copies: a program that computes nothing copies its results, which a device can do."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.compiler.partition.assignment import STRUCTURAL_OPCODES, CompileTarget
from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class RootCopies(HloModulePass):
    """Writes a `copy` behind each result of a program without instructions that compute.

    Without one, the device has nothing to run, and the SDK moves the results by way of the host.

    Attributes:
        target: takes the copies, or none are written; None, where no platform is named, changes
            nothing.
    """

    name = "root-copies"
    target: CompileTarget | None = None

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            PluginError: the compiler raised.
        """
        entry, root, target = module.entry, module.entry.root, self.target
        if target is None or any(
            i.opcode not in STRUCTURAL_OPCODES or i.note.device for i in entry.instructions
        ):
            return module
        results = root.operands if root.opcode == "tuple" else (root,)
        if not results or not all(r.shape.is_array and not r.shape.is_dynamic for r in results):
            return module
        copies = {r: _copy(r) for r in results}
        if not all(target.supports(copy) for copy in copies.values()):
            return module
        made = copies[root] if root.opcode != "tuple" else root.with_operands(
            tuple(copies[r] for r in results)
        )  # fmt: skip

        def change(computation: HloComputation) -> HloComputation:
            return rebuild(entry, {}, root=made) if computation is entry else computation

        return map_computations(module, change)


def _copy(value: HloInstruction) -> HloInstruction:
    return make_instruction("copy", (value,), name=f"{value.name}.copy", note=value.note.place)
