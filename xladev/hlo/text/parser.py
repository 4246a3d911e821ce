"""Parses HLO text: a module with or without header, or one instruction."""

from __future__ import annotations

import re

from xladev.errors import ParseError, XladevError
from xladev.hlo.ir import DEFAULT_HEADER, HloModule, ModuleHeader
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import Shape
from xladev.hlo.text.cursor import END, WORD, Cursor, locate
from xladev.hlo.text.draft import ComputationDraft, InstructionDraft
from xladev.hlo.text.header import parse_header
from xladev.hlo.text.instructions import InstructionParser
from xladev.hlo.text.resolve import Linker
from xladev.hlo.text.scalar_values import parse_list
from xladev.hlo.text.shapes import parse_shape_at, sees_shape


def parse_module(text: str) -> HloModule:
    """The module that HLO text describes.

    Accepts the long style (``%names``, operand shapes, computation signatures) and the short one,
    a text without header (its last computation, or the one marked ENTRY, is the entry), and a
    lone instruction, whose operands become parameters. Computations and instructions may be used
    before they are defined. The grammar is that of XLA's `hlo/parser/hlo_parser.cc`.

    Raises:
        ParseError: malformed text; ``where`` shows line, column and a caret.
    """
    if not isinstance(text, str):
        raise ParseError(
            f"HLO text is a str, not {type(text).__name__}",
            hint="xladev.load takes bytes, serialized or text, and paths",
        )
    cursor = Cursor(text)
    name, header = None, DEFAULT_HEADER
    if cursor.sees_word("HloModule"):
        name, header = parse_header(cursor)
    elif not _sees_computation(cursor):
        return _parse_lone_instruction(cursor)
    parser = InstructionParser(cursor)
    entry = _parse_computations(parser)
    linked = Linker(text, parser.computations).link(entry)
    return _module(cursor, f"module_{linked.name}" if name is None else name, linked, header)


def parse_shape(text: str) -> Shape:
    """The shape that ``text`` spells, such as ``(f32[2,<=3]{1,0:T(8,128)}, token[])``.

    Raises:
        ParseError: malformed, of unknown type, nested too deep or too large.
    """
    cursor = Cursor(text)
    shape = parse_shape_at(cursor)
    _expect_end(cursor, "a shape")
    return shape


def _module(cursor: Cursor, name: str, entry: object, header: ModuleHeader) -> HloModule:
    try:
        return HloModule(name, entry, header)  # type: ignore[arg-type]
    except XladevError as error:
        raise error.at(locate(cursor.text, 0)) from None


def _expect_end(cursor: Cursor, what: str) -> None:
    if cursor.kind != END:
        cursor.fail(f"unexpected {cursor.seen()} after {what}")


# -- computations

_SIGNATURE = re.compile(r"\s*(?:\)\s*->|%?[\w.\-]+\s*:)")


def _sees_computation(cursor: Cursor) -> bool:
    """True if a computation begins at the cursor, not a lone instruction."""
    if cursor.sees_word("ENTRY"):
        return True
    _, follower = cursor.look_ahead()
    if follower == "{":
        return True
    if follower != "(" or sees_shape(cursor):
        return False
    opening = cursor.text.index("(", cursor.end)
    is_opcode = cursor.kind == WORD and cursor.value in OPSET
    return not is_opcode or _SIGNATURE.match(cursor.text, opening + 1) is not None


def _parse_computations(parser: InstructionParser) -> ComputationDraft:
    """All computations up to the end of the text; returns the entry."""
    cursor = parser.cursor
    entry: ComputationDraft | None = None
    last: ComputationDraft | None = None
    while cursor.kind != END:
        start = cursor.start
        is_entry = cursor.sees_word("ENTRY") and cursor.look_ahead()[1] not in ("{", "(")
        if is_entry:
            cursor.advance()
        last = _parse_computation(parser)
        if is_entry and entry is not None:
            cursor.fail("two computations are marked ENTRY", start)
        entry = last if is_entry else entry
    if last is None:
        cursor.fail("the module has no computations")
    return entry or last


def _parse_computation(parser: InstructionParser) -> ComputationDraft:
    cursor = parser.cursor
    offset = cursor.start
    name = cursor.name("the name of a computation")
    signature = _parse_signature(cursor) if cursor.sees("(") else None
    draft = parser.parse_body(name, offset)
    draft.signature = signature
    while cursor.sees(","):
        parser.parse_thread(draft)
    parser.computations.append(draft)
    return draft


def _parse_signature(cursor: Cursor) -> tuple[list[tuple[str, Shape]], Shape]:
    """``(name: shape, ...) -> shape``."""
    parameters = parse_list(cursor, _parse_parameter, "(", ")")
    cursor.expect("->", "after the parameters of a computation")
    return list(parameters), parse_shape_at(cursor)


def _parse_parameter(cursor: Cursor) -> tuple[str, Shape]:
    name = cursor.name("the name of a parameter")
    cursor.accept(":")
    return name, parse_shape_at(cursor)


# -- one instruction


def _parse_lone_instruction(cursor: Cursor) -> HloModule:
    parser = InstructionParser(cursor, single=True)
    offset = cursor.start
    instructions: list[InstructionDraft] = []
    cursor.accept_word("ROOT")
    if cursor.look_ahead()[1] == "=":
        parser.parse_instruction(instructions)
    else:
        parser.parse_definition("_", offset, instructions)
    _expect_end(cursor, "a lone instruction")
    entry = ComputationDraft("_", offset, instructions, len(instructions) - 1)
    parser.computations.append(entry)
    linked = Linker(cursor.text, parser.computations).link(entry)
    return _module(cursor, "_", linked, ModuleHeader(is_scheduled=True))
