"""RNG expander: the hidden state of `rng` becomes a value that is handed on.

The entry reads a counter once (`rng-get-and-update-state`), which makes the first state, and every
`rng` draws bits from the state that it is handed (`rng-bit-generator`, Philox). Loops, branches and
calls take the state with their operands and give it back with their results. So no iteration draws
the numbers of another, nothing in a loop is special, and numbers follow from the counter alone.

A condition that draws cannot give the state back. Its loop is rotated: the condition is called once
before the loop and at the end of each iteration, and the loop goes by the answer that it carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.ops.control import branch_attributes, branches
from xladev.hlo.rebuild import with_operands
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.random_numbers import normal, uniform
from xladev.passes.pass_ import HloModulePass

STATE = array(dt.U64, (2,))
_SPREAD = 0x9E3779B97F4A7C15
"""Odd, so that neighbouring seeds give keys far apart (the golden ratio in 64 bits)."""

_HANDS_ON = frozenset({"while", "conditional", "call"})


@dataclass(frozen=True, slots=True)
class RngExpander(HloModulePass):
    """Replaces `rng` in the entry and in what it calls by Philox on an explicit state.

    What a computation of scalars draws is left alone.
    """

    name = "rng-expander"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        drawing = _drawing(module)
        if module.entry not in drawing:
            return module
        changed: dict[HloComputation, HloComputation] = {}
        for computation in module.computations:
            if computation in drawing and computation is not module.entry:
                changed[computation] = _Threading(computation, changed).function()
        entry = _Threading(module.entry, changed).entry()
        return with_unique_names(replace(module, entry=entry))


def _drawing(module: HloModule) -> set[HloComputation]:
    """Computations that draw numbers, directly or through what they hand the state to."""
    found: set[HloComputation] = set()
    for computation in module.computations:
        if any(_draws(i, found) for i in computation.instructions):
            found.add(computation)
    return found


def _draws(instruction: HloInstruction, drawing: set[HloComputation]) -> bool:
    if instruction.opcode == "rng":
        return True
    if instruction.opcode not in _HANDS_ON:
        return False
    return any(c in drawing for c in instruction.called)


class _Threading:
    """Copies one computation, with the state handed through it.

    Attributes:
        computation: the original.
        changed: computations that take the state already.
    """

    def __init__(
        self, computation: HloComputation, changed: Mapping[HloComputation, HloComputation]
    ) -> None:
        self.computation = computation
        self.changed = changed
        self._e = Emitter(computation.name)
        self._made: dict[HloInstruction, HloInstruction] = {}

    def entry(self) -> HloComputation:
        """As before outside; the state begins with the counter."""
        for parameter in self.computation.parameters:
            self._made[parameter] = self._e.append(parameter)
        counter = self._e.op("rng-get-and-update-state", shape=STATE, delta=1)
        low, high = (self._e.slice_in(counter, 0, n, n + 1) for n in (0, 1))
        key = self._e.add(low, self._e.multiply(high, _SPREAD))
        self._state = self._e.concatenate([key, self._e.full(0, dt.U64, (1,))], 0)
        return self._e.build(self._copied())

    def function(self) -> HloComputation:
        """Takes (operand, state) or operands and state; gives (result, state).

        A computation of one parameter takes a tuple, as loops and branches want it, any other one
        more parameter; see `_called`.
        """
        parameters = self.computation.parameters
        if len(parameters) == 1:
            pair = self._e.parameter(tuple_of(parameters[0].shape, STATE))
            self._made[parameters[0]], self._state = self._e.parts(pair)
        else:
            for parameter in parameters:
                self._made[parameter] = self._e.append(parameter)
            number = len(parameters)
            self._state = self._e.op("parameter", shape=STATE, parameter_number=number)
        root = self._copied()
        return self._e.build(self._e.op("tuple", root, self._state))

    def _copied(self) -> HloInstruction:
        for instruction in self.computation.instructions:
            if instruction not in self._made:
                self._made[instruction] = self._copy(instruction)
        return self._made[self.computation.root]

    def _copy(self, instruction: HloInstruction) -> HloInstruction:
        operands = tuple([self._made[o] for o in instruction.operands])
        if instruction.opcode == "rng":
            return self._drawn(instruction, operands)
        if any(c in self.changed for c in instruction.called):
            return self._handed_on(instruction, operands)
        return self._e.append(self._after(with_operands(instruction, operands), instruction))

    def _after(self, copy: HloInstruction, original: HloInstruction) -> HloInstruction:
        before = original.note.control_predecessors
        if not before:
            return copy
        now = tuple(self._made[p] for p in before)
        return replace(copy, note=replace(copy.note, control_predecessors=now))

    def _drawn(
        self, instruction: HloInstruction, operands: Sequence[HloInstruction]
    ) -> HloInstruction:
        draw = normal if instruction["distribution"] == "rng_normal" else uniform
        made = draw(self._e, self._bits, instruction.shape, operands[0], operands[1])
        if made.shape == instruction.shape:
            return made
        return self._e.op("copy", made, shape=instruction.shape)

    def _bits(self, element_type: PrimitiveType, dims: tuple[int, ...]) -> HloInstruction:
        shape = tuple_of(STATE, array(element_type, dims))
        pair = self._e.op("rng-bit-generator", self._state, shape=shape, algorithm="rng_philox")
        self._state, bits = self._e.parts(pair)
        return bits

    def _handed_on(
        self, instruction: HloInstruction, operands: Sequence[HloInstruction]
    ) -> HloInstruction:
        """The same with the state in and out."""
        opcode = instruction.opcode
        if opcode == "while":
            made = self._loop(instruction, operands[0])
        elif opcode == "conditional":
            made = self._choice(instruction, operands)
        else:
            made = self._call(instruction, operands)
        result, self._state = self._e.parts(made)[:2]
        return result

    def _with_state(self, operand: HloInstruction) -> HloInstruction:
        return self._e.op("tuple", operand, self._state)

    def _loop(self, loop: HloInstruction, operand: HloInstruction) -> HloInstruction:
        body = self.changed.get(loop["body"]) or _untouched(loop["body"])
        drawing = self.changed.get(loop["condition"])
        if drawing is not None:
            return self._rotated(operand, drawing, body)
        condition = _first_of_pair(loop["condition"])
        return self._e.op("while", self._with_state(operand), condition=condition, body=body)

    def _rotated(
        self, operand: HloInstruction, condition: HloComputation, body: HloComputation
    ) -> HloInstruction:
        """A loop on (operand, state, whether to go on)."""
        going_on, state = self._e.parts(
            self._e.op("call", self._with_state(operand), to_apply=condition)
        )
        start = self._e.op("tuple", operand, state, going_on)
        return self._e.op(
            "while", start, condition=_third(start.shape), body=_then_asked(body, condition)
        )

    def _choice(self, choice: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Branches that draw nothing give the state back as it was."""
        selector, *arguments = operands
        bodies = tuple(self.changed.get(c) or _untouched(c) for c in branches(choice))
        pairs = [self._with_state(argument) for argument in arguments]
        attrs = branch_attributes(selector.shape, bodies)
        return self._e.op("conditional", selector, *pairs, **attrs)

    def _call(self, call: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
        body = self.changed[call["to_apply"]]
        if len(operands) == 1:
            return self._e.op("call", self._with_state(operands[0]), to_apply=body)
        return self._e.op("call", *operands, self._state, to_apply=body)


def _first_of_pair(computation: HloComputation) -> HloComputation:
    """The computation on the first part of its one operand."""
    e = Emitter(f"{computation.name}.first")
    pair = e.parameter(tuple_of(computation.parameters[0].shape, STATE))
    return e.build(e.op("call", e.parts(pair)[0], to_apply=computation))


def _third(shape: Shape) -> HloComputation:
    """The third part of a tuple."""
    e = Emitter("goes_on")
    return e.build(e.parts(e.parameter(shape))[2])


def _then_asked(body: HloComputation, condition: HloComputation) -> HloComputation:
    """The body of a rotated loop: an iteration, then the condition of the next."""
    e = Emitter(f"{body.name}.asked")
    pair = body.parameters[0].shape
    operand, state, _ = e.parts(e.parameter(tuple_of(*pair.tuple_shapes, array(dt.PRED))))
    after = e.op("call", e.op("tuple", operand, state), to_apply=body)
    result = e.parts(after)[0]
    going_on, state = e.parts(e.op("call", after, to_apply=condition))
    return e.build(e.op("tuple", result, state, going_on))


def _untouched(computation: HloComputation) -> HloComputation:
    """The computation, handing on the state beside its one operand."""
    e = Emitter(f"{computation.name}.beside")
    operand, state = e.parts(e.parameter(tuple_of(computation.parameters[0].shape, STATE)))
    result = e.op("call", operand, to_apply=computation)
    return e.build(e.op("tuple", result, state))
