"""Structured control flow: counted loops, loops that carry values, branches that yield values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xladev.codegen.llvm.arithmetic import Arithmetic
from xladev.codegen.llvm.instructions import ConditionalBranch, PhiNode, UnconditionalBranch
from xladev.codegen.llvm.loop_census import UNKNOWN_TRIPS
from xladev.codegen.llvm.types import I64, IrType
from xladev.codegen.llvm.values import Value
from xladev.errors import CompileError

Values = Sequence[Value]


@dataclass(slots=True)
class LoopBuilder:
    """A counted loop being emitted.

    Attributes:
        index: the counter, i64.
        values: carried values at the start of an iteration; after the loop, their final values.
    """

    index: Value
    values: tuple[Value, ...]
    _next: tuple[Value, ...] | None = field(default=None, init=False)

    def carry(self, *values: Value) -> None:
        """Fixes the carried values of the next iteration; once, inside the loop."""
        if [v.type for v in values] != [v.type for v in self.values]:
            raise CompileError("a loop must carry values of the types that it began with")
        self._next = values

    def latch_values(self) -> tuple[Value, ...]:
        """What `carry` was given."""
        if self._next is None and self.values:
            raise CompileError("a loop with carried values ended without carry()")
        return self._next or ()


class Control(Arithmetic):
    """Branches and loops; nothing here needs block names from its callers."""

    def jump(self, label: str) -> None:
        """Branches always."""
        self.terminate(f"br label %{label}")
        if self._keeps:
            self._note(UnconditionalBranch(label))

    def split(self, condition: Value, then: str, otherwise: str) -> None:
        """Branches on a scalar i1."""
        self.terminate(f"br {condition}, label %{then}, label %{otherwise}")
        if self._keeps:
            self._note(ConditionalBranch(condition, then, otherwise))

    def _phi(self, initial: Value, from_block: str) -> tuple[Value, Callable[[Value, str], None]]:
        """A phi of two edges, and the function that supplies its second."""
        name, line, type_ = f"%{self.fresh()}", self.reserve(), initial.type

        def close(value: Value, block: str) -> None:
            edges = f"[{initial.text}, %{from_block}], [{value.text}, %{block}]"
            phi = PhiNode(type_, ((initial, from_block), (value, block)), name)
            self.fill(line, f"{name} = phi {type_.text} {edges}", phi)

        return Value(name, type_), close

    @contextmanager
    def carried_loop(
        self, start: Value | int, stop: Value | int, step: int = 1, initial: Values = ()
    ) -> Iterator[LoopBuilder]:
        """Counts an i64 from ``start`` while below ``stop`` (signed), carrying ``initial``.

        The body calls ``loop.carry(...)`` with the next values; after the ``with`` statement
        ``loop.values`` are the final ones. The test comes last, where LLVM would move it.
        """
        body, done = self.fresh("body"), self.fresh("done")
        first, before = self._counter(start), self.block
        trips = _trips(first, stop, step)
        if trips:
            self.jump(body)
        else:
            self.split(self.icmp("slt", first, stop), body, done)
        inside = self.enter_loop(UNKNOWN_TRIPS if trips is None else max(trips, 1))
        self.start_block(body)
        index, close_index = self._phi(first, before)
        carried = [self._phi(value, before) for value in initial]
        loop = LoopBuilder(index, tuple(value for value, _ in carried))
        yield loop
        following = self.binary("add nsw", index, step)
        last, latch = loop.latch_values(), self.block
        close_index(following, latch)
        for (_, close), value in zip(carried, last, strict=True):
            close(value, latch)
        self.leave_loop(inside)
        self.split(self.icmp("slt", following, stop), body, done)
        self.start_block(done)
        loop.values = last if trips else self._either(initial, before, last, latch)

    def _either(
        self, left: Values, left_block: str, right: Values, right_block: str
    ) -> tuple[Value, ...]:
        """Phis at the start of a block that two others lead to."""

        def either(a: Value, b: Value) -> Value:
            edges = f"[{a.text}, %{left_block}], [{b.text}, %{right_block}]"
            made = self.emit(a.type, f"phi {a.type} {edges}")
            if self._keeps:
                self._note(PhiNode(a.type, ((a, left_block), (b, right_block)), made.text))
            return made

        return tuple(either(a, b) for a, b in zip(left, right, strict=True))

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: int = 1) -> Iterator[Value]:
        """Counts an i64 from ``start`` while below ``stop`` (signed); yields the counter."""
        with self.carried_loop(start, stop, step) as carried:
            yield carried.index

    def _counter(self, number: Value | int) -> Value:
        return number if isinstance(number, Value) else self.const(I64, number)

    def while_loop(
        self,
        initial: Values,
        condition: Callable[[Values], Value],
        body: Callable[[Values], Values],
    ) -> tuple[Value, ...]:
        """Repeats ``body`` on the carried values while ``condition`` holds; their final values."""
        head, inside, done = self.fresh("head"), self.fresh("body"), self.fresh("done")
        before, begin = self.block, self.enter_loop(UNKNOWN_TRIPS)
        self.jump(head)
        self.start_block(head)
        carried = [self._phi(value, before) for value in initial]
        values = tuple(value for value, _ in carried)
        self.split(condition(values), inside, done)
        self.start_block(inside)
        for (_, close), value in zip(carried, body(values), strict=True):
            close(value, self.block)
        self.leave_loop(begin)
        self.jump(head)
        self.start_block(done)
        return values

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Runs the body, which yields nothing, only where a scalar i1 holds."""
        inside, done = self.fresh("then"), self.fresh("join")
        self.split(condition, inside, done)
        self.start_block(inside)
        yield
        self.jump(done)
        self.start_block(done)

    @contextmanager
    def leave_when(self, condition: Value) -> Iterator[None]:
        """Runs the body, which ends by leaving the function, only where a scalar i1 holds."""
        inside, done = self.fresh("leave"), self.fresh("stay")
        self.split(condition, inside, done)
        self.start_block(inside)
        yield
        self.start_block(done)

    def branch(
        self, condition: Value, then: Callable[[], Values], otherwise: Callable[[], Values]
    ) -> tuple[Value, ...]:
        """Values of one of two blocks of code, chosen by a scalar i1."""
        labels = self.fresh("then"), self.fresh("else"), self.fresh("join")
        self.split(condition, labels[0], labels[1])
        taken: list[tuple[Values, str]] = []
        for label, emit in zip(labels, (then, otherwise), strict=False):
            self.start_block(label)
            taken.append((emit(), self.block))
            self.jump(labels[2])
        self.start_block(labels[2])
        (left, left_block), (right, right_block) = taken
        return self._either(left, left_block, right, right_block)

    def switch(self, index: Value, cases: Sequence[Callable[[], None]]) -> None:
        """Runs case ``index`` (unsigned), the last one for every index that has none."""
        labels = [self.fresh("case") for _ in cases]
        done = self.fresh("join")
        chosen = " ".join(
            f"{index.type} {number}, label %{label}" for number, label in enumerate(labels[:-1])
        )
        self.terminate(f"switch {index}, label %{labels[-1]} [ {chosen} ]")
        for label, emit in zip(labels, cases, strict=True):
            self.start_block(label)
            emit()
            self.jump(done)
        self.start_block(done)

    def by_lane(
        self, emit: Callable[[Values], Values], operands: Values, results: Sequence[IrType]
    ) -> tuple[Value, ...]:
        """Applies a scalar emitter to each lane in turn; ``results`` are its element types."""
        lanes = operands[0].lanes
        if lanes == 1:
            return tuple(emit(operands))
        empty = tuple(Value("poison", IrType(type_.element, lanes)) for type_ in results)
        if not self.module.target.has_indexed_vectors:
            for lane in range(lanes):
                scalars = emit([self.extract(operand, lane) for operand in operands])
                filled = zip(empty, scalars, strict=True)
                empty = tuple(self.insert(vector, one, lane) for vector, one in filled)
            return empty
        with self.carried_loop(0, lanes, initial=empty) as loop:
            scalars = emit([self.extract(operand, loop.index) for operand in operands])
            filled = zip(loop.values, scalars, strict=True)
            loop.carry(*[self.insert(vector, one, loop.index) for vector, one in filled])
        return loop.values


def _trips(start: Value, stop: Value | int, step: int) -> int | None:
    """Iterations of a loop between constants, 0 if it never runs; None if either is none."""
    end = stop.text if isinstance(stop, Value) else str(stop)
    numbers = [int(text) for text in (start.text, end) if text.lstrip("-").isdigit()]
    return max(-(-(numbers[1] - numbers[0]) // step), 0) if len(numbers) == 2 else None
