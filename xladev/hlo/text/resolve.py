"""Links drafts into IR: names to instructions and computations, callees first, operands first.

Everything here is iterative, and linear in the number of instructions and references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, cast

from xladev.errors import ParseError, XladevError
from xladev.hlo.device_attribute import without_device
from xladev.hlo.ir import NO_ANNOTATIONS, Annotations, HloComputation, HloInstruction
from xladev.hlo.names import UniqueNames
from xladev.hlo.opdef import COMPUTATION_KINDS, OpCall
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import Shape
from xladev.hlo.text.cursor import locate
from xladev.hlo.text.draft import ComputationDraft, InstructionDraft, Reference

T = TypeVar("T")
Callee = Reference | ComputationDraft


class Linker:
    """Builds the computations of one module.

    Attributes:
        text: the source, for errors.
        drafts: all computations, those written in place included.
    """

    def __init__(self, text: str, drafts: Sequence[ComputationDraft]) -> None:
        self.text = text
        self.drafts = drafts
        self._by_name: dict[str, ComputationDraft] = {}
        self._built: dict[int, HloComputation] = {}
        self._instruction_names = UniqueNames()
        self._computation_names: dict[int, str] = {}
        self._name_computations()

    def link(self, entry: ComputationDraft) -> HloComputation:
        """The computation of ``entry``, with all that it calls.

        Raises:
            ParseError: unknown or repeated names, cycles, shapes that contradict each other.
        """
        self._reserve_instruction_names()
        for draft in self._ordered([entry, *self.drafts]):
            self._built[id(draft)] = self._build(draft)
        return self._built[id(entry)]

    # -- computations

    def _name_computations(self) -> None:
        names = UniqueNames()
        for draft in self.drafts:
            if draft.in_place:
                continue
            if draft.name in self._by_name:
                self._fail(f"computation {draft.name!r} is defined twice", draft.offset)
            self._by_name[draft.name] = draft
            self._computation_names[id(draft)] = names.take(draft.name)
        for draft in self.drafts:
            if draft.in_place:
                self._computation_names[id(draft)] = names.take(draft.name)

    def _ordered(self, drafts: Sequence[ComputationDraft]) -> list[ComputationDraft]:
        def callees(draft: ComputationDraft) -> Iterator[ComputationDraft]:
            for instruction in draft.instructions:
                for callee in _callees(instruction):
                    yield self._find(callee)

        return _depth_first(drafts, callees, self._fail_recursion)

    def _find(self, callee: Callee) -> ComputationDraft:
        if isinstance(callee, ComputationDraft):
            return callee
        found = self._by_name.get(callee.name)
        if found is None:
            self._fail(f"there is no computation {callee.name!r}", callee.offset)
        return found

    def _fail_recursion(self, draft: ComputationDraft) -> NoReturn:
        self._fail(
            f"computation {draft.name!r} calls itself, directly or not",
            draft.offset,
            why="constraint module_c1: calls form no cycle",
        )

    def _computation(self, callee: Callee) -> HloComputation:
        return self._built[id(self._find(callee))]

    def _build(self, draft: ComputationDraft) -> HloComputation:
        scope = self._scope(draft)
        made: dict[int, HloInstruction] = {}
        order = draft.instructions
        if not _in_order(order, scope):
            order = self._sorted(order, scope)
        for instruction in order:
            made[id(instruction)] = self._make(instruction, scope, made)
        root = made[id(draft.instructions[draft.root])]
        self._check_signature(draft, root)
        name = self._computation_names[id(draft)]
        try:
            return HloComputation(name, tuple(made.values()), root, draft.execution_thread)
        except XladevError as error:
            raise self._located(error, draft.offset) from None

    def _scope(self, draft: ComputationDraft) -> dict[str, InstructionDraft]:
        scope: dict[str, InstructionDraft] = {}
        for instruction in draft.instructions:
            if scope.setdefault(instruction.name, instruction) is not instruction:
                self._fail(
                    f"instruction {instruction.name!r} is defined twice in {draft.name!r}",
                    instruction.offset,
                )
        return scope

    def _check_signature(self, draft: ComputationDraft, root: HloInstruction) -> None:
        if draft.signature is None:
            return
        _, result = draft.signature
        if not _compatible(result, root.shape):
            self._fail(
                f"computation {draft.name!r} is said to return {result}, not {root.shape}",
                draft.offset,
            )

    # -- instructions

    def _reserve_instruction_names(self) -> None:
        """First come, first named; the names of operands written in place give way."""
        names = self._instruction_names
        for draft in self.drafts:
            for instruction in draft.instructions:
                instruction.unique_name = names.take(instruction.name.replace("#", "_"))

    def _sorted(
        self, order: Sequence[InstructionDraft], scope: dict[str, InstructionDraft]
    ) -> list[InstructionDraft]:
        """Text order, but operands and control predecessors first."""

        def before(draft: InstructionDraft) -> Iterator[InstructionDraft]:
            for name, offset in _needed(draft):
                yield self._lookup(name, offset, scope)

        return _depth_first(order, before, self._fail_cycle)

    def _fail_cycle(self, draft: InstructionDraft) -> NoReturn:
        self._fail(
            f"instruction {draft.name!r} depends on itself, directly or not",
            draft.offset,
            why="constraint computation_c1: operands form no cycle",
        )

    def _lookup(
        self, name: str, offset: int, scope: dict[str, InstructionDraft]
    ) -> InstructionDraft:
        found = scope.get(name)
        if found is None:
            self._fail(f"there is no instruction {name!r} in this computation", offset)
        return found

    def _make(
        self,
        draft: InstructionDraft,
        scope: dict[str, InstructionDraft],
        made: dict[int, HloInstruction],
    ) -> HloInstruction:
        operands = tuple([made[id(scope[o.name])] for o in draft.operands])
        for operand, wanted in zip(operands, draft.operands, strict=True):
            if wanted.shape is not None and not _compatible(wanted.shape, operand.shape):
                self._fail(
                    f"operand {wanted.name!r} is said to be {wanted.shape}, not {operand.shape}",
                    wanted.offset,
                )
        attrs = draft.attrs
        if draft.op.name in _CALLING:
            attrs = self._linked(draft)
        if "type" in attrs and draft.op.name == "compare":
            attrs = _without_plain_type(attrs, operands)
        note = self._note(draft, scope, made) if draft.note else NO_ANNOTATIONS
        shape = draft.shape
        if shape is None:
            shape = self._infer(draft, operands, attrs)
        return HloInstruction(draft.op, shape, operands, attrs, draft.unique_name, note)

    def _linked(self, draft: InstructionDraft) -> dict[str, Any]:
        """Attributes with computations in place of their names."""
        attrs = dict(draft.attrs)
        for name in _CALLING[draft.op.name]:
            value = attrs.get(name)
            if isinstance(value, tuple):
                attrs[name] = tuple(map(self._computation, cast("tuple[Callee, ...]", value)))
            elif value is not None:
                attrs[name] = self._computation(value)
        return attrs

    def _note(
        self,
        draft: InstructionDraft,
        scope: dict[str, InstructionDraft],
        made: dict[int, HloInstruction],
    ) -> Annotations:
        fields = draft.note
        if "control_predecessors" in fields:
            before = tuple(made[id(scope[r.name])] for r in fields["control_predecessors"])
            fields = {**fields, "control_predecessors": before}
        if "frontend_attributes" in fields:
            attributes, device = without_device(fields["frontend_attributes"])
            fields = {**fields, "frontend_attributes": attributes, "device": device}
        return Annotations(**fields)

    def _infer(
        self, draft: InstructionDraft, operands: Sequence[HloInstruction], attrs: dict[str, Any]
    ) -> Shape:
        call = OpCall(draft.op, tuple(o.shape for o in operands), attrs)
        try:
            return call.result() if draft.op.infer is None else draft.op.infer(call)
        except XladevError as error:
            raise self._located(error, draft.offset) from None

    # -- errors

    def _located(self, error: XladevError, offset: int) -> ParseError:
        where = locate(self.text, offset)
        return ParseError(error.what, where=where, why=error.why, hint=error.hint)

    def _fail(self, what: str, offset: int, *, why: str | None = None) -> NoReturn:
        raise ParseError(what, where=locate(self.text, offset), why=why)


_CALLING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        op.name: names
        for op in OPSET.values()
        if (names := tuple(a.name for a in op.attrs if a.kind in COMPUTATION_KINDS))
    }
)
"""Opcode -> its attributes that name computations."""


def _callees(draft: InstructionDraft) -> Iterator[Callee]:
    for name in _CALLING.get(draft.op.name, ()):
        value = draft.attrs.get(name)
        if isinstance(value, tuple):
            yield from cast("tuple[Callee, ...]", value)
        elif value is not None:
            yield value


def _without_plain_type(
    attrs: dict[str, Any], operands: Sequence[HloInstruction]
) -> dict[str, Any]:
    """Drops the type of a comparison where it is the one that its operands imply."""
    element_type = operands[0].shape.element_type
    inexact = element_type.is_float or element_type.is_complex
    if inexact and attrs["type"] != "FLOAT":
        return attrs
    return {name: value for name, value in attrs.items() if name != "type"}


def _needed(draft: InstructionDraft) -> Iterator[tuple[str, int]]:
    """Names and offsets of what must come before an instruction."""
    for operand in draft.operands:
        yield operand.name, operand.offset
    for reference in draft.note.get("control_predecessors", ()):
        yield reference.name, reference.offset


def _in_order(order: Sequence[InstructionDraft], scope: dict[str, InstructionDraft]) -> bool:
    """True if everything is defined before it is used."""
    seen: set[str] = set()
    for draft in order:
        for operand in draft.operands:
            if operand.name not in seen:
                return False
        if draft.note:
            for reference in draft.note.get("control_predecessors", ()):
                if reference.name not in seen:
                    return False
        seen.add(draft.name)
    return True


def _depth_first(
    nodes: Sequence[T], before: Callable[[T], Iterator[T]], fail: Callable[[T], NoReturn]
) -> list[T]:
    """Nodes in the given order, but with everything in ``before(node)`` ahead of the node."""
    done: dict[int, T] = {}
    opened: set[int] = set()
    for node in nodes:
        if id(node) in opened:
            continue
        opened.add(id(node))
        stack = [(node, before(node))]
        while stack:
            current, waiting = stack[-1]
            following = next((n for n in waiting if id(n) not in done), None)
            if following is None:
                done[id(current)] = current
                stack.pop()
            elif id(following) in opened:
                fail(following)
            else:
                opened.add(id(following))
                stack.append((following, before(following)))
    return list(done.values())


def _compatible(declared: Shape, actual: Shape) -> bool:
    """True if two shapes are the same type, whatever their layouts and which sizes are bounds."""
    if declared is actual or declared == actual:
        return True
    return declared.static().equal_ignoring_layout(actual.static())
