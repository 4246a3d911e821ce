"""Makes constants of what the target rejects and depends on constants alone.

`ConstantFolding` leaves broadcasts and iota, which are cheaper made than kept. On a device that has
neither, the host would make them in each run, and each run would copy them to the device; a
constant is copied once, when the program is loaded. Where several devices are to choose from, one
that has neither is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xladev.compiler.partition.assignment import (
    STRUCTURAL_OPCODES,
    CompileTarget,
    control_computations,
)
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.constant_folding import (
    MOST_FLOPS,
    as_constant,
    folded_value,
    is_foldable,
    takes_little,
)
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.pass_ import HloModulePass

_FREE = frozenset({"broadcast", "iota"})
"""What `ConstantFolding` leaves for its size alone."""


@dataclass(frozen=True, slots=True)
class RejectedConstants(HloModulePass):
    """Replaces what the platform rejects, and needs constants alone, by a constant.

    Attributes:
        target: whose answers count; None, where no platform is named, changes nothing.
        max_nbytes: most bytes of a constant that is made: the program keeps them.
    """

    name = "rejected-constants"
    target: CompileTarget | None = None
    max_nbytes: int = 1 << 20

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            PluginError: the compiler raised.
        """
        target = self.target
        if target is None:
            return module
        inside = {computation.name for computation in control_computations(module)}
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            if computation.name not in inside:
                return computation
            made = dict(self._made(computation, target))
            return without_dead(rebuild(computation, made), effects) if made else computation

        return map_computations(module, change)

    def _made(
        self, computation: HloComputation, target: CompileTarget
    ) -> Iterator[tuple[HloInstruction, HloInstruction]]:
        """What is rejected, and the constant in its place."""
        candidates = set(self._candidates(computation))
        values: dict[HloInstruction, Array] = {}
        for i in computation.instructions:
            if i in candidates and i.opcode != "constant" and not target.takes_wherever_it_goes(i):
                value = _value(i, values)
                if value is not None:
                    yield i, as_constant(i, value)

    def _candidates(self, computation: HloComputation) -> Iterator[HloInstruction]:
        """What depends on constants alone and is small enough, operands first."""
        found: set[HloInstruction] = set()
        for i in computation.instructions:
            if self._is_candidate(i) and found.issuperset(i.operands):
                found.add(i)
                yield i

    def _is_candidate(self, i: HloInstruction) -> bool:
        if not i.shape.is_array or i.shape.is_dynamic or i.shape.nbytes > self.max_nbytes:
            return False
        if i.opcode == "constant":
            return not i["literal"].elided
        if i.opcode in STRUCTURAL_OPCODES:
            return False
        if i.opcode in _FREE:
            return True
        return bool(i.operands) and is_foldable(i) and takes_little(i, MOST_FLOPS)


def _value(i: HloInstruction, values: dict[HloInstruction, Array]) -> Array | None:
    """The value of a candidate, with those of its operands; None where the evaluator has none."""
    pending = [i]
    while pending:
        last = pending[-1]
        missing = [o for o in last.operands if o not in values]
        if missing:
            pending.extend(missing)
            continue
        pending.pop()
        found = _own_value(last, values)
        if found is None:
            return None
        values[last] = found
    return values[i]


def _own_value(i: HloInstruction, values: Mapping[HloInstruction, Array]) -> Array | None:
    array: Array | None = i["literal"].array if i.opcode == "constant" else folded_value(i, values)
    return array
