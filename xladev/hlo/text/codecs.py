"""One parser and one printer per kind of attribute value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xladev.hlo.attributes import Sharding
from xladev.hlo.literal import Literal
from xladev.hlo.opdef import AttrKind
from xladev.hlo.shape import Shape, tuple_of
from xladev.hlo.text.cursor import Cursor
from xladev.hlo.text.devices import groups_text, parse_groups, parse_sharding, sharding_text
from xladev.hlo.text.literals import literal_text, parse_literal_at
from xladev.hlo.text.metadata import quoted
from xladev.hlo.text.numbers import format_float
from xladev.hlo.text.scalar_values import (
    parse_bools,
    parse_float,
    parse_int_lists,
    parse_ints,
    parse_list,
    parse_pairs,
    parse_settings,
    parse_word,
    parse_words,
)
from xladev.hlo.text.shapes import parse_shape_at
from xladev.hlo.text.windows import (
    accuracy_text,
    aliasing_text,
    conv_dims_text,
    index_text,
    padding_text,
    parse_accuracy,
    parse_aliasing,
    parse_conv_dims,
    parse_padding,
    parse_slice,
    parse_window,
    slice_text,
    window_text,
)


@dataclass(frozen=True, slots=True)
class TextCodec:
    """How values of one kind are read and written.

    Attributes:
        parse: takes the value at the cursor; a ParseError if there is none.
        text: the value's spelling, which ``parse`` reads back as an equal value.
    """

    parse: Callable[[Cursor], Any]
    text: Callable[[Any], str]


def _parse_shapes(cursor: Cursor) -> tuple[Shape, ...]:
    return parse_list(cursor, parse_shape_at)


def _shapes_text(shapes: tuple[Shape, ...]) -> str:
    return "{" + ", ".join(map(str, shapes)) + "}"


def _parse_typed_literal(cursor: Cursor, depth: int = 0) -> Literal:
    """``f32[2]{0} {1, 2}``; a tuple is ``(f32[] 1, s32[] 2)``."""
    if depth > 64:
        cursor.fail("tuple literal nested too deep")
    if not cursor.sees("("):
        return parse_literal_at(cursor, parse_shape_at(cursor, literal_follows=True))
    parts = parse_list(cursor, lambda c: _parse_typed_literal(c, depth + 1), "(", ")")
    return Literal(tuple_of(*(p.shape for p in parts)), parts=parts)


def _typed_literal_text(literal: Literal) -> str:
    if literal.shape.is_tuple:
        return "(" + ", ".join(map(_typed_literal_text, literal.parts)) + ")"
    return f"{literal.shape} {literal_text(literal)}"


def _parse_domain(cursor: Cursor) -> tuple[Sharding, Sharding]:
    """``{kind="sharding", entry={..}, exit={..}}`` as (entry, exit)."""
    cursor.expect("{", "before a domain")
    start = cursor.start
    found: dict[str, Any] = {}
    while not cursor.sees("}"):
        name = cursor.word("a field of a domain")
        cursor.expect("=")
        if name not in ("kind", "entry", "exit") or name in found:
            cursor.fail(f"domain field {name} is unknown or given twice")
        found[name] = cursor.string() if name == "kind" else parse_sharding(cursor)
        cursor.accept(",")
    if found.get("kind") != "sharding" or len(found) != 3:
        cursor.fail('a domain has kind="sharding", entry and exit', start)
    cursor.expect("}", "after a domain")
    return found["entry"], found["exit"]


def _domain_text(value: tuple[Sharding, Sharding]) -> str:
    entry, leave = map(sharding_text, value)
    return f'{{kind="sharding", entry={entry}, exit={leave}}}'


def _lists_text(lists: tuple[tuple[int, ...], ...]) -> str:
    return "{" + ",".join(map(index_text, lists)) + "}"


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _bools_text(values: tuple[bool, ...]) -> str:
    return "{" + ",".join(map(_bool_text, values)) + "}"


def _words_text(words: tuple[str, ...]) -> str:
    return "{" + ",".join(words) + "}"


CODECS: Mapping[AttrKind, TextCodec] = MappingProxyType(
    {
        AttrKind.INT: TextCodec(Cursor.signed, str),
        AttrKind.NUMBER: TextCodec(Cursor.signed, str),
        AttrKind.BOOL: TextCodec(Cursor.boolean, _bool_text),
        AttrKind.FLOAT: TextCodec(parse_float, format_float),
        AttrKind.STRING: TextCodec(Cursor.string, quoted),
        AttrKind.WORD: TextCodec(parse_word, str),
        AttrKind.INTS: TextCodec(parse_ints, index_text),
        AttrKind.BOOLS: TextCodec(parse_bools, _bools_text),
        AttrKind.WORDS: TextCodec(parse_words, _words_text),
        AttrKind.INT_LISTS: TextCodec(parse_int_lists, _lists_text),
        AttrKind.PAIRS: TextCodec(parse_pairs, _lists_text),
        AttrKind.WINDOW: TextCodec(parse_window, window_text),
        AttrKind.CONV_DIMS: TextCodec(parse_conv_dims, conv_dims_text),
        AttrKind.SLICE: TextCodec(parse_slice, slice_text),
        AttrKind.PADDING: TextCodec(parse_padding, padding_text),
        AttrKind.LITERAL: TextCodec(_parse_typed_literal, _typed_literal_text),
        AttrKind.GROUPS: TextCodec(parse_groups, groups_text),
        AttrKind.SHAPE: TextCodec(parse_shape_at, str),
        AttrKind.SHAPES: TextCodec(_parse_shapes, _shapes_text),
        AttrKind.ALIASING: TextCodec(parse_aliasing, aliasing_text),
        AttrKind.ACCURACY: TextCodec(parse_accuracy, accuracy_text),
        AttrKind.SHARDINGS: TextCodec(_parse_domain, _domain_text),
        AttrKind.SPARSITY: TextCodec(parse_settings, str),
    }
)
"""Codec of every kind but those of computations, whose names the parser resolves."""
