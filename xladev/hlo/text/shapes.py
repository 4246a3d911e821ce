"""Parses shapes and layouts."""

from __future__ import annotations

import re
from collections.abc import Callable

from xladev.errors import ShapeError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import (
    COMBINE_DIMENSION,
    MAX_TUPLE_DEPTH,
    UNBOUNDED,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    check_shape,
    tuple_of,
)
from xladev.hlo.text.cursor import NUMBER, WORD, Cursor

_PLAIN = re.compile(r"[a-z][a-z0-9]*\[[0-9,]*\](?:\{[0-9][0-9,]*\}|(?!\s*\{\s*[0-9:]))")
_KNOWN_LIMIT = 4096
_BLANKS = (" ", "\t", "\n", "\r")
_known: dict[str, Shape] = {}


def parse_shape_at(cursor: Cursor, depth: int = 0, *, literal_follows: bool = False) -> Shape:
    """The shape at the cursor: an array, buffer, token, opaque or tuple.

    Args:
        cursor: where the shape begins.
        depth: of tuples around it.
        literal_follows: a brace behind a blank opens a literal, and no layout.

    Raises:
        ParseError: malformed, of unknown type, nested too deep or too large.
    """
    if cursor.kind == WORD:
        plain = _PLAIN.match(cursor.text, cursor.start)
        if plain is not None:
            return _plain_shape(cursor, plain.group(), literal_follows)
    if not cursor.sees("("):
        return _parse_array(cursor, literal_follows)
    if depth >= MAX_TUPLE_DEPTH:
        cursor.fail("tuple shape nested too deep", why=f"at most {MAX_TUPLE_DEPTH} levels")
    return _parse_tuple(cursor, depth)


def sees_shape(cursor: Cursor) -> bool:
    """True if a shape begins at the cursor."""
    if cursor.sees("("):
        return True
    if cursor.kind != WORD:
        return False
    follower = cursor.text[cursor.end : cursor.end + 1]
    if follower in _BLANKS and cursor.value in dt.BY_NAME:
        return cursor.look_ahead()[1] == "["
    return follower == "[" or (cursor.value == dt.BUFFER.name and follower == "(")


def _plain_shape(cursor: Cursor, text: str, literal_follows: bool) -> Shape:
    """An array shape without frills: parsed once, remembered by its spelling."""
    shape = _known.get(text)
    if shape is not None:
        cursor.seek(cursor.start + len(text))
        return shape
    shape = _parse_array(cursor, literal_follows)
    if len(_known) < _KNOWN_LIMIT:
        _known[text] = shape
    return shape


def _parse_tuple(cursor: Cursor, depth: int) -> Shape:
    cursor.expect("(")
    parts: list[Shape] = []
    if not cursor.sees(")"):
        parts.append(parse_shape_at(cursor, depth + 1))
        while cursor.accept(","):
            parts.append(parse_shape_at(cursor, depth + 1))
    cursor.expect(")", "after the parts of a tuple shape")
    return tuple_of(*parts)


def _parse_array(cursor: Cursor, literal_follows: bool = False) -> Shape:
    start = cursor.start
    element_type = parse_primitive_type(cursor)
    if element_type is dt.BUFFER:
        return _parse_buffer(cursor)
    dims, dynamic = _parse_dims(cursor)
    if not element_type.is_array:
        return _without_data(cursor, element_type, dims, start)
    is_literal = literal_follows and cursor.text[cursor.start - 1] in _BLANKS
    layout = _parse_layout(cursor) if not is_literal and _sees_layout(cursor) else None
    shape = Shape(element_type, dims, layout, dynamic if any(dynamic) else ())
    try:
        check_shape(shape)
    except ShapeError as error:
        raise cursor.error(error.what, start, why=error.why) from None
    return shape


def _sees_layout(cursor: Cursor) -> bool:
    """True if the brace here opens a layout, not the body of a computation."""
    if not cursor.sees("{"):
        return False
    kind, value = cursor.look_ahead()
    return kind == NUMBER or value == ":"


def _parse_buffer(cursor: Cursor) -> Shape:
    cursor.expect("(", "after buffer type b")
    inner = _parse_array(cursor)
    cursor.expect(")", "after the shape inside a buffer")
    return Shape(dt.BUFFER, tuple_shapes=(inner,))


def _without_data(
    cursor: Cursor, element_type: dt.PrimitiveType, dims: tuple[int, ...], start: int
) -> Shape:
    if dims or element_type is dt.TUPLE:
        cursor.fail(f"{element_type} has no dimensions", start)
    if _sees_layout(cursor):
        cursor.fail(f"{element_type} has no layout")
    return Shape(element_type)


def parse_primitive_type(cursor: Cursor) -> dt.PrimitiveType:
    """The primitive type at the cursor."""
    found = dt.BY_NAME.get(cursor.value) if cursor.kind == WORD else None
    if found is None:
        cursor.fail(f"expected a shape, not {cursor.seen()}", hint=_type_hint(cursor.value))
    cursor.advance()
    return found


def _type_hint(word: str) -> str | None:
    return f"did you mean {word.lower()!r}?" if word.lower() in dt.BY_NAME else None


def _parse_dims(cursor: Cursor) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    cursor.expect("[", "after an element type")
    dims: list[int] = []
    dynamic: list[bool] = []
    while not cursor.sees("]"):
        size, is_dynamic = _parse_dim(cursor)
        dims.append(size)
        dynamic.append(is_dynamic)
        if not cursor.accept(","):
            break
    cursor.expect("]", "after dimensions")
    return tuple(dims), tuple(dynamic)


def _parse_dim(cursor: Cursor) -> tuple[int, bool]:
    if cursor.accept("?"):
        return UNBOUNDED, True
    bounded = cursor.accept("<=")
    if cursor.value[:1] == "-":
        cursor.fail(f"dimension of negative size {cursor.value}")
    return cursor.signed("a dimension size"), bounded


def _parse_layout(cursor: Cursor) -> Layout:
    cursor.expect("{")
    minor_to_major: list[int] = []
    while cursor.kind == NUMBER:
        minor_to_major.append(cursor.signed())
        if not cursor.accept(","):
            break
    fields: dict[str, object] = {}
    if cursor.accept(":"):
        while not cursor.sees("}"):
            _parse_layout_field(cursor, fields)
    cursor.expect("}", "after a layout")
    return Layout(tuple(minor_to_major), **fields)  # type: ignore[arg-type]


def _parse_layout_field(cursor: Cursor, fields: dict[str, object]) -> None:
    """Takes one field such as ``T(8,128)`` or ``E(4)`` into ``fields``."""
    key = cursor.value
    parse = _LAYOUT_FIELDS.get(key)
    if parse is None:
        known = ", ".join(_LAYOUT_FIELDS)
        cursor.fail(f"unknown layout field {cursor.seen()}", hint=f"one of {known}")
    start = cursor.start
    cursor.advance()
    name, value = parse(cursor)
    if name == "split_configs" and name in fields:
        value = (*_as_tuple(fields[name]), *_as_tuple(value))
    elif name in fields:
        cursor.fail(f"layout field {key} given twice", start)
    fields[name] = value


def _as_tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _parse_level_types(cursor: Cursor) -> tuple[str, object]:
    cursor.expect("(")
    levels = [_parse_level_type(cursor)]
    while cursor.accept(","):
        levels.append(_parse_level_type(cursor))
    cursor.expect(")")
    return "dim_level_types", tuple(levels)


def _parse_level_type(cursor: Cursor) -> str:
    """A level type: a letter with marks for not unique (``+``) and not ordered (``~``)."""
    level = cursor.word("a dimension level type such as D, C or S")
    if cursor.accept("+"):
        level += "+"
    return level + "~" if cursor.accept("~") else level


def _parse_tiles(cursor: Cursor) -> tuple[str, object]:
    tiles: list[Tile] = []
    while cursor.accept("("):
        dims = [_parse_tile_dim(cursor)]
        while cursor.accept(","):
            dims.append(_parse_tile_dim(cursor))
        cursor.expect(")", "after a tile")
        tiles.append(Tile(tuple(dims)))
    if not tiles:
        cursor.fail(f"expected '(' after T, not {cursor.seen()}")
    return "tiles", tuple(tiles)


def _parse_tile_dim(cursor: Cursor) -> int:
    return COMBINE_DIMENSION if cursor.accept("*") else cursor.signed("a tile size")


def _in_parentheses(name: str) -> Callable[[Cursor], tuple[str, object]]:
    """A field of one integer in parentheses."""

    def parse(cursor: Cursor) -> tuple[str, object]:
        cursor.expect("(")
        value = cursor.signed()
        if value < 0:
            cursor.fail(f"layout field {name} is negative")
        cursor.expect(")")
        return name, value

    return parse


def _typed(name: str) -> Callable[[Cursor], tuple[str, object]]:
    """A field of one primitive type in parentheses."""

    def parse(cursor: Cursor) -> tuple[str, object]:
        cursor.expect("(")
        value = parse_primitive_type(cursor)
        cursor.expect(")")
        return name, value

    return parse


def _parse_splits(cursor: Cursor) -> tuple[str, object]:
    splits: list[SplitConfig] = []
    while cursor.accept("("):
        dimension = cursor.signed()
        cursor.expect(":")
        indices = [cursor.signed()]
        while cursor.accept(","):
            indices.append(cursor.signed())
        cursor.expect(")")
        splits.append(SplitConfig(dimension, tuple(indices)))
    return "split_configs", tuple(splits)


def _parse_physical(cursor: Cursor) -> tuple[str, object]:
    cursor.expect("(")
    shape = parse_shape_at(cursor, MAX_TUPLE_DEPTH)
    cursor.expect(")")
    return "physical_shape", shape


_LAYOUT_FIELDS: dict[str, Callable[[Cursor], tuple[str, object]]] = {
    "D": _parse_level_types,
    "T": _parse_tiles,
    "L": _in_parentheses("tail_padding_alignment"),
    "#": _typed("index_type"),
    "*": _typed("pointer_type"),
    "E": _in_parentheses("element_bits"),
    "S": _in_parentheses("memory_space"),
    "SC": _parse_splits,
    "P": _parse_physical,
    "M": _in_parentheses("metadata_prefix_bytes"),
}
