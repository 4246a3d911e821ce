"""Which buffer each value of one computation is in, and which one a new value may be given.

A value is computed straight into the buffer where it, or what is made in its place, is wanted (a
program result, a loop's state) if nothing reads that buffer's old content afterwards; else into the
buffer of an operand that dies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from xladev.compiler.buffers.result_places import result_places
from xladev.compiler.buffers.virtual_buffers import VirtualBuffer
from xladev.compiler.plan.kernel_plan import Space
from xladev.compiler.plan.kernel_table import InPlace
from xladev.hlo.array_values import ArrayValue, array_values, last_uses
from xladev.hlo.ir import HloComputation, HloInstruction

Buffers = Sequence[VirtualBuffer]


class BufferFrame:
    """One computation being walked.

    Args:
        computation: the computation.
        arguments: the caller's buffers, one per parameter value.
        results: the caller's buffers, one per root value.
        owned: those among ``arguments`` that are also in ``results``: may be overwritten.

    Attributes:
        computation: the computation.
        source: what each instruction's values really are.
        held: the buffer of each value.
        given_back: how often each value is one of the root's.
    """

    def __init__(
        self,
        computation: HloComputation,
        arguments: Buffers,
        results: Buffers,
        owned: AbstractSet[VirtualBuffer],
    ) -> None:
        self.computation = computation
        self.source = array_values(computation)
        self._last = last_uses(computation, self.source)
        self._given = frozenset((*arguments, *results))
        values = [value for p in computation.parameters for value in self.source[p]]
        self.held: dict[ArrayValue, VirtualBuffer] = dict(zip(values, arguments, strict=True))
        self._old_content = {b: value for value, b in self.held.items() if b in owned}
        self.given_back = Counter(self.source[computation.root])
        self._wanted_in: dict[ArrayValue, VirtualBuffer] = {}
        for value, buffer in zip(self.source[computation.root], results, strict=True):
            self._wanted_in.setdefault(value, buffer)
        for value, result in result_places(computation, self.source).items():
            self._wanted_in[value] = self._wanted_in[result]
        self._state: _InitialState | None = None

    def buffers(self, instruction: HloInstruction) -> list[VirtualBuffer]:
        """Buffers of an instruction's values."""
        return [self.held[value] for value in self.source[instruction]]

    def result_buffer(
        self, at: int, value: ArrayValue, operands: Buffers, in_place: InPlace
    ) -> VirtualBuffer | None:
        """The buffer for a value that instruction ``at`` makes; None if it needs a new one.

        Args:
            at: position of the instruction.
            value: what it makes.
            operands: buffers of the values of its operands.
            in_place: pairs (result, operand) that may be one buffer.
        """
        wanted = self._wanted(at, value)
        if wanted is not None:
            reads = (n for n, buffer in enumerate(operands) if buffer is wanted)
            if all((value.number, n) in in_place for n in reads):
                return wanted
        return self._dying_operand(at, value, operands, in_place)

    def kept_parts(self, loop: HloInstruction) -> AbstractSet[int]:
        """Parts of a loop's state that its body passes on, and that nobody reads after the loop.

        They are read where they are: a part of this kind needs no memory, and no copy.
        """
        after = {n for n, value in enumerate(self.source[loop]) if value not in self._last}
        if not after:
            return frozenset()
        body = loop["body"]
        source = array_values(body)
        given = [value for p in body.parameters for value in source[p]]
        passed = zip(given, source[body.root], strict=True)
        return {n for n, (before, value) in enumerate(passed) if before == value} & after

    def state_buffer(self, at: int, loop: HloInstruction, number: int) -> VirtualBuffer | None:
        """The buffer for part ``number`` of a loop's state; None if it needs a new one."""
        state = self._initial_state(loop)
        value, start = state.values[number], state.buffers[number]
        begins_once = state.times[value] == 1
        wanted = self._wanted(at, self.source[loop][number])
        if wanted is not None:
            read = state.numbers.get(wanted, ())
            if not read or (begins_once and read == [number]):
                return wanted
        alone = begins_once and len(state.numbers[start]) == 1
        return start if alone and self._may_reuse(start, value, at) else None

    def _initial_state(self, loop: HloInstruction) -> _InitialState:
        """What a loop begins with; looked through once for all its parts."""
        if self._state is None or self._state.loop is not loop:
            values = self.source[loop.operands[0]]
            self._state = _InitialState(loop, values, [self.held[value] for value in values])
        return self._state

    def _wanted(self, at: int, value: ArrayValue) -> VirtualBuffer | None:
        """The buffer where the value is wanted, if its old content is not needed any more."""
        buffer = self._wanted_in.get(value)
        old = None if buffer is None else self._old_content.get(buffer)
        return None if old is not None and self._last.get(old, -1) > at else buffer

    def _dying_operand(
        self, at: int, value: ArrayValue, operands: Buffers, in_place: InPlace
    ) -> VirtualBuffer | None:
        """A temporary that only this instruction still reads, and may overwrite."""
        i = self.computation.instructions[at]
        taken = [self.held[x] for x in self.source[i] if x in self.held]
        read = [x for o in i.operands for x in self.source[o]]
        for result, number in sorted(in_place):
            buffer = operands[number]
            if result != value.number or buffer in taken or operands.count(buffer) > 1:
                continue
            fits = buffer.nbytes == value.shape.nbytes
            if fits and self._may_reuse(buffer, read[number], at):
                return buffer
        return None

    def _may_reuse(self, buffer: VirtualBuffer, content: ArrayValue, at: int) -> bool:
        """True if the buffer is this computation's own and its content is not read after ``at``."""
        own = buffer.space is Space.SCRATCH and buffer not in self._given
        return own and self._last.get(content, -1) == at


class _InitialState:
    """What the state of a loop begins with: values, their buffers, and how often each comes."""

    def __init__(
        self, loop: HloInstruction, values: Sequence[ArrayValue], buffers: Sequence[VirtualBuffer]
    ) -> None:
        self.loop = loop
        self.values = values
        self.buffers = buffers
        self.times = Counter(values)
        self.numbers: dict[VirtualBuffer, list[int]] = {}
        for number, buffer in enumerate(buffers):
            self.numbers.setdefault(buffer, []).append(number)
