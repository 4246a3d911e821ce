"""Parses attribute values of simple form: numbers, words, strings, lists of those."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from xladev.hlo.text.cursor import NUMBER, STRING, WORD, Cursor

T = TypeVar("T")

_FLOAT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITIES = frozenset({"inf", "-inf"})
_INTS = re.compile(r"\{\s*(?:-?[0-9]{1,18}(?:\s*,\s*-?[0-9]{1,18})*)?\s*\}")
JSON_PIECE = re.compile(r'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def parse_list(
    cursor: Cursor, item: Callable[[Cursor], T], opening: str = "{", closing: str = "}"
) -> tuple[T, ...]:
    """Items separated by commas between brackets; a trailing comma is allowed."""
    cursor.expect(opening)
    items: list[T] = []
    while not cursor.sees(closing):
        items.append(item(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(closing, f"or ',' after {len(items)} items of a list")
    return tuple(items)


def parse_ints(cursor: Cursor) -> tuple[int, ...]:
    """``{1,0}``."""
    plain = _INTS.match(cursor.text, cursor.start)
    if plain is None:
        return parse_list(cursor, Cursor.signed)
    body = plain.group()[1:-1].strip()
    cursor.seek(plain.end())
    return tuple(map(int, body.split(","))) if body else ()


def parse_int_lists(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    """``{{0,1},{2,3}}``."""
    return parse_list(cursor, parse_ints)


def parse_pairs(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    """``{{0,1},{1,2}}``: pairs of integers."""
    start = cursor.start
    pairs = parse_int_lists(cursor)
    if any(len(pair) != 2 for pair in pairs):
        cursor.fail("expected pairs of integers", start)
    return pairs


def parse_bools(cursor: Cursor) -> tuple[bool, ...]:
    """``{true,false}``, or one boolean without braces."""
    if not cursor.sees("{"):
        return (cursor.boolean(),)
    return parse_list(cursor, Cursor.boolean)


def parse_word(cursor: Cursor) -> str:
    """A bare word such as ``EQ`` or ``kLoop``."""
    return cursor.word()


def parse_words(cursor: Cursor) -> tuple[str, ...]:
    """``{highest,default}``."""
    return parse_list(cursor, parse_word)


def parse_float(cursor: Cursor) -> float:
    """A decimal number or an infinity; a NaN would not be equal to itself."""
    value = cursor.value
    if cursor.kind not in (NUMBER, WORD) or not (_FLOAT.match(value) or value in _INFINITIES):
        cursor.fail(f"expected a number, not {cursor.seen()}")
    cursor.advance()
    return float(value)


def parse_string_or_json(cursor: Cursor) -> str:
    """A quoted string, or a bare JSON object, which is kept as its text."""
    if cursor.kind == STRING:
        return cursor.string()
    if not cursor.sees("{"):
        cursor.fail(f"expected a quoted string or a JSON object, not {cursor.seen()}")
    start = cursor.start
    depth = 0
    for piece in JSON_PIECE.finditer(cursor.text, start):
        if piece.group() in "{}":
            depth += 1 if piece.group() == "{" else -1
        if depth == 0:
            cursor.seek(piece.end())
            return cursor.text[start : piece.end()]
    raise cursor.error("expected '}' at the end of a JSON object", start)


_OPENING = {"(": ")", "[": "]", "{": "}"}
_RAW_PIECE = re.compile(r'[][(){},\n]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def parse_raw(cursor: Cursor) -> str:
    """Text up to the next comma or end of line outside of brackets and strings, kept as it is."""
    start, end = cursor.start, len(cursor.text)
    closing: list[str] = []
    for piece in _RAW_PIECE.finditer(cursor.text, start):
        mark = piece.group()
        if mark in _OPENING:
            closing.append(_OPENING[mark])
        elif closing and mark == closing[-1]:
            closing.pop()
        elif mark in ")]}" or (mark in ",\n" and not closing):
            end = piece.start()
            break
    text = cursor.text[start:end].rstrip()
    if closing or not text:
        cursor.fail("expected a value with balanced brackets", start)
    cursor.seek(end)
    return text


_MAX_SETTINGS_DEPTH = 8


def parse_settings(cursor: Cursor) -> str:
    """Nested settings such as ``{lhs={sparsity=2x4 idx=2}}``, as text with single blanks."""
    start = cursor.start
    out: list[str] = []
    depth = 0
    while True:
        if cursor.accept("}"):
            depth -= 1
            out.append("}")
        elif cursor.accept("{"):
            depth += 1
            out.append("{")
        else:
            _parse_setting(cursor, out)
        if depth == 0:
            return "".join(out)
        if depth > _MAX_SETTINGS_DEPTH:
            cursor.fail("settings nested too deep", start)


def _parse_setting(cursor: Cursor, out: list[str]) -> None:
    """``name=number``, or ``name=`` before a brace."""
    cursor.accept(",")
    if cursor.sees("}"):
        return
    name = cursor.word("a setting in braces")
    cursor.expect("=")
    out.append(("" if out and out[-1] == "{" else " ") + name + "=")
    if not cursor.sees("{"):
        if cursor.kind not in (NUMBER, WORD):
            cursor.fail(f"expected a number, not {cursor.seen()}")
        out.append(cursor.value)
        cursor.advance()
