"""Parses instructions into drafts, and computations that are written in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from xladev.hlo.opdef import Attr, AttrKind, OpDef
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import Shape
from xladev.hlo.text.codecs import CODECS
from xladev.hlo.text.cursor import NAME, WORD, Cursor
from xladev.hlo.text.devices import parse_sharding
from xladev.hlo.text.draft import ComputationDraft, InstructionDraft, OperandDraft, Reference
from xladev.hlo.text.literals import parse_literal_at
from xladev.hlo.text.metadata import (
    parse_frontend_attributes,
    parse_metadata,
    parse_origin,
    parse_statistics,
)
from xladev.hlo.text.scalar_values import parse_list, parse_string_or_json
from xladev.hlo.text.shapes import parse_shape_at, sees_shape
from xladev.hlo.text.spellings import ABSENT, IGNORED, OTHER_SPELLINGS, UNSET, known_words

MAX_NESTING = 64
"""Deepest nesting of computations and operands written in place."""

_ASYNC_SUFFIXES = {"-start": "async-start", "-update": "async-update", "-done": "async-done"}


def _parse_references(cursor: Cursor) -> tuple[Reference, ...]:
    return parse_list(cursor, _parse_reference)


def _parse_reference(cursor: Cursor) -> Reference:
    start = cursor.start
    return Reference(cursor.name(), start)


_NOTES: Mapping[str, tuple[str, Callable[[Cursor], Any]]] = MappingProxyType(
    {
        "metadata": ("metadata", parse_metadata),
        "sharding": ("sharding", parse_sharding),
        "frontend_attributes": ("frontend_attributes", parse_frontend_attributes),
        "backend_config": ("backend_config", parse_string_or_json),
        "control-predecessors": ("control_predecessors", _parse_references),
        "origin": ("origin", parse_origin),
        "statistics": ("statistics", parse_statistics),
    }
)
"""Text name -> field of Annotations and its parser, for what any instruction may carry."""


@dataclass(slots=True)
class InstructionParser:
    """Parses the instructions of one module.

    Attributes:
        cursor: where it reads.
        computations: every computation read so far, those written in place included.
        single: True where unknown operands become parameters (a module of one instruction).
        depth: how many computations and operands written in place are open.
    """

    cursor: Cursor
    computations: list[ComputationDraft] = field(default_factory=list[ComputationDraft])
    single: bool = False
    depth: int = 0
    anonymous: int = 0

    def parse_body(self, name: str, offset: int) -> ComputationDraft:
        """The instructions between braces, as a computation."""
        cursor = self.cursor
        cursor.expect("{", "before the instructions of a computation")
        instructions: list[InstructionDraft] = []
        root: int | None = None
        while not cursor.sees("}"):
            start = cursor.start
            is_root = cursor.sees_word("ROOT") and cursor.look_ahead()[1] != "="
            if is_root:
                cursor.advance()
            self.parse_instruction(instructions)
            if is_root and root is not None:
                cursor.fail(f"computation {name} has two ROOT instructions", start)
            if is_root:
                root = len(instructions) - 1
        if not instructions:
            cursor.fail(f"computation {name} has no instructions", offset)
        cursor.advance()
        return ComputationDraft(
            name, offset, instructions, len(instructions) - 1 if root is None else root
        )

    def parse_instruction(self, into: list[InstructionDraft]) -> None:
        """``name = shape opcode(operands), attributes``; operands written in place come first."""
        offset = self.cursor.start
        name = self.cursor.name("the name of an instruction")
        self.cursor.expect("=", f"after instruction name {name!r}")
        self.parse_definition(name, offset, into)

    def parse_definition(
        self, name: str, offset: int, into: list[InstructionDraft], *, attributes: bool = True
    ) -> InstructionDraft:
        """What follows the ``=``.

        Operands written in place have no name and no ``attributes``: their comma ends them.
        """
        cursor = self.cursor
        shape = parse_shape_at(cursor) if sees_shape(cursor) else None
        opcode_at = cursor.start
        op, wrapped = _parse_opcode(cursor)
        if not name:
            self.anonymous += 1
            name = f"{op.name}.anon.{self.anonymous}"
        draft = InstructionDraft(name, offset, op, shape, [])
        if op.name in _POSITIONAL:
            self._parse_positional(draft)
        else:
            self._parse_operands(draft, into)
        if attributes:
            allowed = op if wrapped is None else wrapped
            while cursor.accept(","):
                self._parse_attribute(draft, op, allowed)
        if wrapped is not None and op.name == "async-start" and not _is_wrapped(draft):
            self._wrap(draft, wrapped, opcode_at)
        for absent, value in ABSENT.get(op.name, ()):
            draft.attrs.setdefault(absent, value)
        _check_required(cursor, draft, opcode_at)
        into.append(draft)
        return draft

    def _parse_positional(self, draft: InstructionDraft) -> None:
        """The number of a parameter or the value of a constant."""
        cursor = self.cursor
        if draft.shape is None:
            cursor.fail(f"{draft.op.name} needs its shape", draft.offset)
        cursor.expect("(", f"after {draft.op.name}")
        if draft.op.name == "constant":
            draft.attrs["literal"] = parse_literal_at(cursor, draft.shape)
        else:
            draft.attrs["parameter_number"] = cursor.signed("the number of a parameter")
        cursor.expect(")", f"after the value of {draft.op.name}")

    # -- operands

    def _parse_operands(self, draft: InstructionDraft, into: list[InstructionDraft]) -> None:
        cursor = self.cursor
        cursor.expect("(", f"before the operands of {draft.op.name}")
        while not cursor.sees(")"):
            draft.operands.append(self._parse_operand(into))
            if not cursor.accept(","):
                break
        cursor.expect(")", f"or ',' after {len(draft.operands)} operands of {draft.op.name}")
        if not draft.op.accepts(len(draft.operands)):
            _fail_arity(cursor, draft)

    def _parse_operand(self, into: list[InstructionDraft]) -> OperandDraft:
        """A name, with its shape before it in the long style, or a whole operation."""
        cursor = self.cursor
        start = cursor.start
        shape = parse_shape_at(cursor) if sees_shape(cursor) else None
        if (cursor.kind == WORD or cursor.kind == NAME) and not _sees_call(cursor):
            operand = OperandDraft(cursor.value, cursor.start, shape)
            cursor.advance()
            if cursor.sees("#"):
                return self._parse_parts(operand, into)
            if self.single and self.depth == 0:
                self._declare(operand, into)
            return operand
        if shape is not None and self.single and self.depth == 0 and cursor.value in (",", ")"):
            operand = OperandDraft(f"operand.{len(into)}", start, shape)
            self._declare(operand, into)
            return operand
        cursor.seek(start)
        return self._parse_operation_in_place(into)

    def _parse_parts(self, whole: OperandDraft, into: list[InstructionDraft]) -> OperandDraft:
        """``name#1#0``: a part of a tuple, which a get-tuple-element ahead of the user takes."""
        cursor = self.cursor
        part = OperandDraft(whole.name, whole.offset)
        while cursor.accept("#"):
            index = cursor.signed("the index of a part")
            name = f"{part.name}#{index}"
            if not any(known.name == name for known in into):
                op = OPSET["get-tuple-element"]
                draft = InstructionDraft(name, whole.offset, op, None, [part], {"index": index})
                into.append(draft)
            part = OperandDraft(name, whole.offset)
        part.shape = whole.shape
        return part

    def _parse_operation_in_place(self, into: list[InstructionDraft]) -> OperandDraft:
        start = self.cursor.start
        self._enter()
        draft = self.parse_definition("", start, into, attributes=False)
        self.depth -= 1
        return OperandDraft(draft.name, start)

    def _declare(self, operand: OperandDraft, into: list[InstructionDraft]) -> None:
        """Makes a parameter of an operand that a lone instruction names for the first time."""
        if any(known.name == operand.name for known in into):
            return
        if operand.shape is None:
            self.cursor.fail(
                f"operand {operand.name!r} has no shape",
                operand.offset,
                why="the operands of a lone instruction become parameters",
                hint=f"write its shape first, as in f32[2] {operand.name}",
            )
        draft = InstructionDraft(
            operand.name, operand.offset, OPSET["parameter"], operand.shape, []
        )
        draft.attrs["parameter_number"] = len(into)
        into.append(draft)

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.cursor.fail(
                "computations or operands written in place are nested too deep",
                why=f"at most {MAX_NESTING} levels",
                hint="give the inner ones names",
            )

    # -- attributes

    def _parse_attribute(self, draft: InstructionDraft, op: OpDef, allowed: OpDef) -> None:
        """``name=value``: of the opcode, of an opcode that it wraps, or one that all may carry."""
        cursor = self.cursor
        start = cursor.start
        name = cursor.word("the name of an attribute")
        cursor.expect("=", f"after attribute name {name!r}")
        spelled = OTHER_SPELLINGS.get((allowed.name, name))
        if spelled is not None:
            name = spelled.name
        attr = allowed.by_name.get(name) or op.by_name.get(name)
        if name in draft.attrs or name in draft.note:
            cursor.fail(f"attribute {name} given twice", start)
        if attr is not None and attr.kind is not AttrKind.NUMBER:
            parse = None if spelled is None else spelled.parse
            value = self._parse_value(allowed.name, attr) if parse is None else parse(cursor)
            draft.attrs[name] = value
        elif name in _NOTES:
            field_name, parse = _NOTES[name]
            if field_name in draft.note:
                cursor.fail(f"attribute {name} given twice", start)
            draft.note[field_name] = parse(cursor)
        elif (op.category, name) in IGNORED:
            cursor.word()
        else:
            _fail_unknown(cursor, start, name, allowed)

    def _parse_value(self, opcode: str, attr: Attr) -> Any:
        if attr.kind is AttrKind.COMPUTATION:
            return self._parse_computation()
        if attr.kind is AttrKind.COMPUTATIONS:
            return parse_list(self.cursor, lambda _: self._parse_computation())
        start = self.cursor.start
        value = CODECS[attr.kind].parse(self.cursor)
        if attr.kind is AttrKind.WORD:
            return self._checked_word(opcode, attr, value, start)
        if attr.kind is AttrKind.WORDS:
            return tuple(self._checked_word(opcode, attr, word, start) for word in value)
        if attr.name == "async_execution_thread" and value == "main":
            return attr.default
        return value

    def _checked_word(self, opcode: str, attr: Attr, word: str, start: int) -> Any:
        known = known_words(opcode, attr)
        if known is None or word in known:
            return word
        if word in UNSET:
            return attr.default
        if word.lower() in known:
            return word.lower()
        raise self.cursor.error(
            f"{attr.name} of {opcode} cannot be {word!r}",
            start,
            hint=f"one of {', '.join(sorted(known))}",
        )

    def _parse_computation(self) -> Reference | ComputationDraft:
        """The name of a computation, or its instructions in place."""
        start = self.cursor.start
        if not self.cursor.sees("{"):
            return Reference(self.cursor.name("the name of a computation"), start)
        self._enter()
        draft = self.parse_body("nested", start)
        draft.in_place = True
        if self.cursor.sees(",") and self.cursor.look_ahead()[1] == "execution_thread":
            self.parse_thread(draft)
        self.depth -= 1
        self.computations.append(draft)
        return draft

    def parse_thread(self, draft: ComputationDraft) -> None:
        """``, execution_thread="name"`` behind a computation."""
        cursor = self.cursor
        cursor.expect(",")
        start = cursor.start
        key = cursor.word("execution_thread")
        if key != "execution_thread":
            cursor.fail(f"a computation has no attribute {key!r}", start)
        cursor.expect("=")
        thread = cursor.string()
        draft.execution_thread = "" if thread == "main" else thread

    # -- asynchronous operations in their short form

    def _wrap(self, start: InstructionDraft, wrapped: OpDef, opcode_at: int) -> None:
        """Turns ``add-start(a, b)`` into ``async-start`` of a computation that adds."""
        operands, result = _async_shapes(self.cursor, start, opcode_at)
        inner: list[InstructionDraft] = []
        for number, shape in enumerate(operands):
            draft = InstructionDraft("async_param", opcode_at, OPSET["parameter"], shape, [])
            draft.name = f"async_param.{number}"
            draft.attrs["parameter_number"] = number
            inner.append(draft)
        named = [OperandDraft(d.name, opcode_at) for d in inner]
        root = InstructionDraft("async_op", opcode_at, wrapped, result, named)
        for name in [n for n in start.attrs if n in wrapped.by_name]:
            root.attrs[name] = start.attrs.pop(name)
        root.note = {n: v for n, v in start.note.items() if n in _SHARED_NOTES}
        if not wrapped.accepts(len(named)):
            _fail_arity(self.cursor, root)
        _check_required(self.cursor, root, opcode_at)
        thread = start.attrs.get("async_execution_thread", "")
        body = ComputationDraft("async_wrapped", opcode_at, [*inner, root], len(inner))
        body.execution_thread = thread
        body.in_place = True
        self.computations.append(body)
        start.attrs["calls"] = body


def _is_wrapped(start: InstructionDraft) -> bool:
    """True if it calls the computation that it begins; ``fusion-start`` may call what it fuses."""
    return "calls" in start.attrs and "kind" not in start.attrs


_POSITIONAL = frozenset({"parameter", "constant"})
_SHARED_NOTES = frozenset(
    {"metadata", "origin", "backend_config", "frontend_attributes", "statistics"}
)
"""What the short form of an asynchronous operation says of the operation inside as well."""


def _parse_opcode(cursor: Cursor) -> tuple[OpDef, OpDef | None]:
    """The opcode, and for the short form of an asynchronous operation the one it wraps."""
    start = cursor.start
    name = cursor.word("a shape or an opcode")
    op = OPSET.get(name)
    if op is not None:
        return op, None
    for suffix, outer in _ASYNC_SUFFIXES.items():
        wrapped = OPSET.get(name.removesuffix(suffix))
        if name.endswith(suffix) and wrapped is not None:
            return OPSET[outer], wrapped
    close = get_close_matches(name, OPSET, n=3) if len(name) < 40 else []
    hint = f"did you mean {', '.join(close)}?" if close else "a shape comes before the opcode"
    raise cursor.error(f"unknown opcode {name!r}", start, hint=hint)


def _sees_call(cursor: Cursor) -> bool:
    return cursor.kind == WORD and cursor.text[cursor.end : cursor.end + 1] == "("


def _async_shapes(
    cursor: Cursor, start: InstructionDraft, at: int
) -> tuple[tuple[Shape, ...], Shape]:
    """Shapes of the operands and of the result inside of an asynchronous start."""
    parts = start.shape.tuple_shapes if start.shape is not None else ()
    if len(parts) < 2 or not parts[0].is_tuple:
        cursor.fail("an asynchronous start needs a shape such as ((operands), result, state)", at)
    if len(parts[0].tuple_shapes) != len(start.operands):
        cursor.fail(f"{len(start.operands)} operands do not fit shape {parts[0]}", at)
    return parts[0].tuple_shapes, parts[1]


def _check_required(cursor: Cursor, draft: InstructionDraft, at: int) -> None:
    for attr in draft.op.attrs:
        if attr.required and attr.name not in draft.attrs:
            cursor.fail(
                f"{draft.op.name} needs attribute {attr.name}",
                at,
                why=f"constraint {draft.op.name}_{attr.name}",
            )


def _fail_arity(cursor: Cursor, draft: InstructionDraft) -> None:
    least, most = draft.op.arity_range
    wanted = str(least) if least == most else f"{least} or more" if most < 0 else f"{least}-{most}"
    cursor.fail(
        f"{draft.op.name} takes {wanted} operands, not {len(draft.operands)}",
        draft.offset,
        why=f"constraint {draft.op.name}_arity",
    )


def _fail_unknown(cursor: Cursor, start: int, name: str, op: OpDef) -> None:
    known = [*op.by_name, *_NOTES]
    close = get_close_matches(name, known, n=1) if len(name) < 60 else []
    hint = f"did you mean {close[0]}?" if close else f"it may have: {', '.join(known)}"
    cursor.fail(f"{op.name} has no attribute {name!r}", start, hint=hint)
