"""A `while` over a tuple whose parts are each taken out by number, as frontends write loops."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.loops.state import Parts, has_tuple_sharding, parameter_parts


@dataclass(frozen=True, slots=True)
class KnownLoop:
    """A loop that passes can see through.

    Attributes:
        instruction: the `while`.
        body_parts: how the body takes its state apart.
        condition_parts: how the condition does.
        following: the next value of each part, in the body.
        initial: the first value of each part; None if the state comes as a whole.
    """

    instruction: HloInstruction
    body_parts: Parts
    condition_parts: Parts
    following: tuple[HloInstruction, ...]
    initial: tuple[HloInstruction, ...] | None

    @staticmethod
    def of(instruction: HloInstruction) -> KnownLoop | None:
        """The loop that an instruction is; None if it is no `while` of that form."""
        if instruction.opcode != "while" or not instruction.shape.is_tuple:
            return None
        body: HloComputation = instruction["body"]
        body_parts = parameter_parts(body)
        condition_parts = parameter_parts(instruction["condition"])
        if body_parts is None or condition_parts is None or body.root.opcode != "tuple":
            return None
        if has_tuple_sharding(instruction) or has_tuple_sharding(body.root):
            return None
        (state,) = instruction.operands
        initial = state.operands if state.opcode == "tuple" else None
        return KnownLoop(instruction, body_parts, condition_parts, body.root.operands, initial)

    @property
    def body(self) -> HloComputation:
        """What is repeated."""
        body: HloComputation = self.instruction["body"]
        return body

    @property
    def condition(self) -> HloComputation:
        """What is asked before."""
        condition: HloComputation = self.instruction["condition"]
        return condition

    @property
    def size(self) -> int:
        """Number of parts of the state."""
        return len(self.following)

    def is_invariant(self, part: int) -> bool:
        """True if the body passes a part on as it is."""
        return self.following[part] in self.body_parts.get(part, ())

    def first(self, part: int) -> HloInstruction | None:
        """What a part begins as; None if that is not known, or of another form than the part.

        A state of bounded dynamic dimensions may begin with static ones.
        """
        if self.initial is None:
            return None
        found, shape = self.initial[part], self.body.parameters[0].shape.tuple_shapes[part]
        same = found.shape.with_default_layout() == shape.with_default_layout()
        return found if same else None

    def held(self, part: int) -> HloInstruction | None:
        """What a part is in every iteration and behind the loop; None if it changes."""
        return self.first(part) if self.is_invariant(part) else None
