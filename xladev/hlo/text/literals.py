"""Parses and prints constants: nested braces whose innermost rows are converted in bulk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array, Literal
from xladev.hlo.shape import MAX_TUPLE_DEPTH, UNBOUNDED, Shape
from xladev.hlo.text.cursor import NAME, NUMBER, PUNCTUATION, WORD, Cursor
from xladev.hlo.text.numbers import ElementError, format_elements, parse_complex, parse_elements

_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ROW = re.compile(r"[^{}]*")
_BLANKS = " \t\r\n"
_PAIR = re.compile(r"\(([^,()]*(?:\([^()]*\))?)\s*,([^,()]*(?:\([^()]*\))?)\s*\)\Z")
_SEPARATOR = re.compile(r",(?![^()]*\))")
_PARENTHESIS = re.compile(r"[()]")
_MAX_NUMPY_RANK = 64
_MAX_BYTES = 2**31 - 1


def parse_literal_at(cursor: Cursor, shape: Shape, depth: int = 0) -> Literal:
    """The literal of ``shape`` at the cursor.

    Raises:
        ParseError: values that do not fit the shape in number, nesting, range or form.
    """
    if shape.is_tuple:
        return _parse_tuple(cursor, shape, depth)
    if not shape.is_array:
        return _parse_without_value(cursor, shape)
    if UNBOUNDED in shape.dims:
        cursor.fail(f"a constant of shape {shape}", why="a constant has a size in every dimension")
    elided = _ELIDED.match(cursor.text, cursor.start)
    if elided is not None:
        cursor.seek(elided.end())
        return Literal(shape, elided=True)
    if len(shape.dims) > _MAX_NUMPY_RANK:
        cursor.fail(f"a constant of rank {shape.rank}", why=f"at most {_MAX_NUMPY_RANK}")
    flat = _parse_bare(cursor, shape) if _is_bare(cursor, shape) else _parse_nest(cursor, shape)
    return Literal(shape, flat.reshape(shape.dims))


def _is_bare(cursor: Cursor, shape: Shape) -> bool:
    """True for a value without braces."""
    return not shape.dims or (shape.size > 0 and not cursor.sees("{"))


def _parse_bare(cursor: Cursor, shape: Shape) -> Array:
    """The first element; the others are zero, as XLA's parser leaves them."""
    value = _parse_scalar(cursor, shape)
    if shape.size == 1:
        return value
    if shape.size * value.dtype.itemsize > _MAX_BYTES:
        cursor.fail(f"a constant of {shape.size} elements", why="at most 2 GiB, as in a proto")
    flat = np.zeros(shape.size, value.dtype)
    flat[:1] = value
    return flat


def _parse_tuple(cursor: Cursor, shape: Shape, depth: int) -> Literal:
    if depth >= MAX_TUPLE_DEPTH:
        cursor.fail("tuple constant nested too deep")
    if cursor.sees("{"):
        elided = _ELIDED.match(cursor.text, cursor.start)
        if elided is None:
            cursor.fail("expected '(' before the parts of a tuple constant")
        cursor.seek(elided.end())
        return Literal(shape, elided=True)
    cursor.expect("(", "before the parts of a tuple constant")
    parts: list[Literal] = []
    for at, part in enumerate(shape.tuple_shapes):
        if at:
            cursor.expect(",", f"before part {at} of a tuple constant")
        parts.append(parse_literal_at(cursor, part, depth + 1))
    cursor.expect(")", f"after {len(parts)} parts of a tuple constant")
    return Literal(shape, parts=tuple(parts))


def _parse_without_value(cursor: Cursor, shape: Shape) -> Literal:
    """A token, which has no value; some printers write the word."""
    cursor.accept_word("token")
    return Literal(shape)


# -- elements


def _parse_scalar(cursor: Cursor, shape: Shape) -> Array:
    start = cursor.start
    end = _scalar_end(cursor, shape)
    row = _parse_row(cursor, start, cursor.text[start:end], shape.element_type)
    if len(row) != 1:
        cursor.fail(f"expected one value, not {len(row)}", start)
    cursor.seek(end)
    return row


def _scalar_end(cursor: Cursor, shape: Shape) -> int:
    """Offset behind a value without braces."""
    if cursor.kind not in (WORD, NUMBER, NAME) and not (
        shape.element_type.is_complex and cursor.sees("(")
    ):
        cursor.fail(f"expected a value of type {shape.element_type}, not {cursor.seen()}")
    end = cursor.end
    if cursor.kind == PUNCTUATION or cursor.text[end : end + 1] == "(":
        return _closing(cursor, cursor.start if cursor.kind == PUNCTUATION else end)
    return end


def _closing(cursor: Cursor, start: int) -> int:
    """Offset behind the parenthesis that closes the one at ``start``, at most two deep."""
    depth = 0
    for found in _PARENTHESIS.finditer(cursor.text, start):
        depth += 1 if found.group() == "(" else -1
        if depth == 0:
            return found.end()
        if depth > 2:
            break
    raise cursor.error("expected ')' after a value", start)


def _parse_nest(cursor: Cursor, shape: Shape) -> Array:
    """Elements between nested braces, each level checked against its dimension."""
    rows: list[Array] = []
    _parse_level(cursor, shape, 0, rows)
    if not rows:
        return np.empty(0, shape.element_type.np)
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _parse_level(cursor: Cursor, shape: Shape, level: int, rows: list[Array]) -> None:
    start = cursor.start
    cursor.expect("{", f"before dimension {level} of a constant of shape {shape}")
    if level == shape.rank - 1:
        rows.append(_parse_last_level(cursor, shape, start))
        return
    count = 0
    while not cursor.sees("}"):
        _parse_level(cursor, shape, level + 1, rows)
        count += 1
        cursor.accept(",")
    cursor.expect("}", f"after {count} parts of dimension {level} of a constant")
    _check_count(cursor, shape, level, count, start)


def _parse_last_level(cursor: Cursor, shape: Shape, start: int) -> Array:
    """The elements of one row, from behind its opening brace."""
    body = _ROW.match(cursor.text, start + 1)
    end = body.end() if body is not None else start + 1
    row = _parse_row(cursor, start + 1, cursor.text[start + 1 : end], shape.element_type)
    cursor.seek(end)
    cursor.expect("}", f"after {len(row)} elements of a constant")
    _check_count(cursor, shape, shape.rank - 1, len(row), start)
    return row


def _check_count(cursor: Cursor, shape: Shape, level: int, count: int, start: int) -> None:
    """Each level has as many parts as its dimension; ``{}`` may stand for no elements at all."""
    want = shape.dims[level]
    if count != want and not (count == 0 and shape.size == 0):
        cursor.fail(f"dimension {level} of {shape} has size {want}, not {count}", start)


def _parse_row(cursor: Cursor, offset: int, text: str, element_type: PrimitiveType) -> Array:
    """Elements separated by commas; ``offset`` is where ``text`` begins."""
    if "/" in text:
        text = _COMMENT.sub(lambda c: " " * len(c.group()), text)
    if not text.strip(_BLANKS):
        return np.empty(0, element_type.np)
    pieces = _SEPARATOR.split(text) if "(" in text else text.split(",")
    if not pieces[-1].strip(_BLANKS):
        pieces.pop()
    texts = [p.strip(_BLANKS) for p in pieces]
    try:
        if element_type.is_complex:
            return parse_complex([_split_pair(i, t) for i, t in enumerate(texts)], element_type)
        return parse_elements(texts, element_type)
    except ElementError as error:
        _fail_element(cursor, offset, pieces, error)


def _split_pair(at: int, text: str) -> tuple[str, str]:
    found = _PAIR.match(text)
    if found is None:
        raise ElementError(at, f"{text[:40]!r} is not a complex number such as (1, -2)")
    return found.group(1).strip(_BLANKS), found.group(2).strip(_BLANKS)


def _fail_element(cursor: Cursor, offset: int, pieces: list[str], error: ElementError) -> NoReturn:
    piece = pieces[error.index]
    before = sum(len(p) + 1 for p in pieces[: error.index])
    blanks = len(piece) - len(piece.lstrip(_BLANKS))
    raise cursor.error(str(error), offset + before + blanks) from None


# -- printing

_MOST_EMPTY_ROWS = 1 << 16


def literal_text(literal: Literal, *, largest: int | None = None) -> str:
    """Text of a literal as it stands between the parentheses of ``constant()``.

    Args:
        literal: what to print.
        largest: elide arrays of more elements, and tuples; None prints everything.
    """
    shape = literal.shape
    if shape.is_tuple and not literal.elided and largest is None:
        return "(" + ", ".join(map(literal_text, literal.parts)) + ")"
    if literal.elided or shape.is_tuple or (largest is not None and shape.size > largest):
        return "{...}"
    if literal.array is None:
        return ""
    return _array_text(literal.array, shape.element_type)


def _array_text(array: Array, element_type: PrimitiveType) -> str:
    texts = format_elements(array.reshape(-1), element_type)
    if array.ndim == 0:
        return texts[0]
    if array.size == 0:
        return _empty_text(array.shape)
    for size in reversed(array.shape[1:]):
        texts = list(_rows(texts, size))
    return "{" + ", ".join(texts) + "}"


def _rows(texts: list[str], size: int) -> Iterator[str]:
    return ("{" + ", ".join(texts[i : i + size]) + "}" for i in range(0, len(texts), size))


def _empty_text(dims: tuple[int, ...]) -> str:
    """Braces of an array without elements, down to the dimension of size zero."""
    outer = dims[: dims.index(0)]
    text = "{}"
    for size in reversed(outer):
        if size * len(text) > _MOST_EMPTY_ROWS:
            return "{}"
        text = "{" + ", ".join([text] * size) + "}"
    return text
