"""Parses and prints what instructions carry besides their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xladev.errors import printable
from xladev.hlo.attributes import NO_METADATA, Metadata, Origin
from xladev.hlo.shape import ShapeIndex
from xladev.hlo.text.cursor import STRING, WORD, Cursor, escape
from xladev.hlo.text.numbers import format_float
from xladev.hlo.text.scalar_values import (
    JSON_PIECE,
    parse_float,
    parse_ints,
    parse_string_or_json,
)

# -- metadata={op_type="Add" op_name="a/b" source_file="m.py" source_line=3}

_STRINGS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
_METADATA: dict[str, Callable[[Cursor], Any]] = {
    **dict.fromkeys(_STRINGS, Cursor.string),
    **dict.fromkeys(
        (
            "source_line", "source_end_line", "source_column", "source_end_column",
            "stack_frame_id",
        ),
        Cursor.signed32,
    ),
    **dict.fromkeys(
        ("size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes"), Cursor.signed
    ),
    "profile_type": parse_ints,
    "preserve_layout": Cursor.boolean,
}  # fmt: skip


def parse_metadata(cursor: Cursor) -> Metadata:
    """Where an instruction came from: fields in braces, with or without commas."""
    cursor.expect("{", "before metadata")
    fields: dict[str, Any] = {}
    while not cursor.sees("}"):
        start = cursor.start
        name = cursor.word("a field of metadata")
        parse = _METADATA.get(name)
        if parse is None or name in fields:
            problem = "unknown" if parse is None else "given twice"
            known = ", ".join(_METADATA)
            cursor.fail(f"metadata field {name} is {problem}", start, hint=f"one of {known}")
        cursor.expect("=")
        fields[name] = parse(cursor)
        cursor.accept(",")
    cursor.expect("}", "after metadata")
    return Metadata(**fields) if fields else NO_METADATA


_PRINTED = (
    "op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column",
    "source_end_column", "stack_frame_id", "profile_type", "deduplicated_name",
    "scheduling_name", "size_of_generated_code_in_bytes",
    "size_of_memory_working_set_in_bytes", "preserve_layout",
)  # fmt: skip


def metadata_text(metadata: Metadata) -> str:
    """The fields that are set, in braces."""
    values = ((name, getattr(metadata, name)) for name in _PRINTED)
    return "{" + " ".join(f"{n}={_value_text(v)}" for n, v in values if v) + "}"


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        return "{" + ",".join(map(str, value)) + "}"
    return "true" if value is True else str(value)


def quoted(text: str) -> str:
    """Text between double quotes, escaped."""
    return f'"{escape(text)}"'


# -- frontend_attributes={key="value",other={"json":1}}

Pairs = tuple[tuple[str, str], ...]


def parse_frontend_attributes(cursor: Cursor) -> Pairs:
    """Sorted (key, value) pairs; values are strings or bare JSON objects."""
    cursor.expect("{", "before frontend attributes")
    pairs: dict[str, str] = {}
    while not cursor.sees("}"):
        start = cursor.start
        key = cursor.string() if cursor.kind == STRING else cursor.word("an attribute name")
        if key in pairs:
            cursor.fail(f"frontend attribute {key!r} given twice", start)
        cursor.expect("=")
        pairs[key] = parse_string_or_json(cursor)
        if not cursor.accept(","):
            break
    cursor.expect("}", "after frontend attributes")
    return tuple(sorted(pairs.items()))


def frontend_attributes_text(pairs: Pairs) -> str:
    """Pairs in braces; keys that are no words are quoted."""
    return "{" + ",".join(f"{_key_text(k)}={string_or_json_text(v)}" for k, v in pairs) + "}"


def _key_text(key: str) -> str:
    cursor = Cursor(key)
    return key if cursor.kind == WORD and cursor.value == key else quoted(key)


def string_or_json_text(text: str) -> str:
    """A JSON object bare where it is printable and reads back as itself, else a quoted string."""
    is_bare = text.startswith("{") and printable(text) == text and _reads_back(text)
    return text if is_bare else quoted(text)


def _has_bytes(text: str) -> bool:
    """True if text holds bytes that are no UTF-8, which only a quoted string can spell."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def _reads_back(text: str) -> bool:
    """True if the braces outside of strings of ``text`` balance only at its end."""
    if not text.isascii() and _has_bytes(text):
        return False
    depth = 0
    for piece in JSON_PIECE.finditer(text):
        if piece.group() == "{":
            depth += 1
        elif piece.group() == "}":
            depth -= 1
        if depth == 0:
            return piece.end() == len(text)
    return False


# -- statistics={visualizing_index=0,name=1.5}


def parse_statistics(cursor: Cursor) -> tuple[tuple[str, float], ...]:
    """(name, value) pairs; the first is the index of the one to visualise."""
    cursor.expect("{", "before statistics")
    pairs: list[tuple[str, float]] = []
    while not cursor.sees("}"):
        name = cursor.word("the name of a statistic")
        cursor.expect("=")
        pairs.append((name, parse_float(cursor)))
        if not cursor.accept(","):
            break
    cursor.expect("}", "after statistics")
    return tuple(pairs)


def statistics_text(statistics: tuple[tuple[str, float], ...]) -> str:
    """Statistics in braces."""
    return "{" + ",".join(f"{name}={format_float(value)}" for name, value in statistics) + "}"


# -- origin={({"a"}, {"b" {0}}),["calls"]} or {[synthetic_call]}

_MAX_ORIGIN_DEPTH = 1000
_SYNTHETIC = "synthetic_call"


def parse_origin(cursor: Cursor) -> Origin:
    """Original values, nested in parentheses as the result is, and where they were called."""
    cursor.expect("{", "before an origin")
    leaves: list[tuple[ShapeIndex, str, ShapeIndex]] = []
    index: list[int] = []
    calls = ""
    while not cursor.sees("}"):
        if not index and (cursor.sees("[") or (cursor.sees(",") and cursor.look_ahead()[1] == "[")):
            calls = _parse_calls(cursor)
            break
        _parse_origin_item(cursor, leaves, index)
    if index:
        cursor.fail("expected ')' before the end of an origin")
    cursor.expect("}", "after an origin")
    return Origin(tuple(leaves), calls)


def _parse_calls(cursor: Cursor) -> str:
    """``[synthetic_call]``, or after a comma ``["calls"]``, where empty means synthetic too."""
    cursor.accept(",")
    cursor.expect("[")
    if cursor.kind == STRING:
        calls = cursor.string() or _SYNTHETIC
    elif cursor.accept_word(_SYNTHETIC):
        calls = _SYNTHETIC
    else:
        cursor.fail(f"expected {_SYNTHETIC} or a quoted string, not {cursor.seen()}")
    cursor.expect("]")
    return calls


def _parse_origin_item(
    cursor: Cursor, leaves: list[tuple[ShapeIndex, str, ShapeIndex]], index: list[int]
) -> None:
    """Takes a parenthesis, a comma or a leaf, which stands at ``index``."""
    if cursor.sees("{"):
        name, part = _parse_original_array(cursor)
        leaves.append((tuple(index), name, part))
    elif cursor.accept("("):
        if len(index) >= _MAX_ORIGIN_DEPTH:
            cursor.fail("origin nested too deep")
        index.append(0)
    elif index and cursor.accept(")"):
        index.pop()
    elif index and cursor.accept(","):
        index[-1] += 1
    else:
        cursor.fail(f"expected an original value, not {cursor.seen()}")


def _parse_original_array(cursor: Cursor) -> tuple[str, ShapeIndex]:
    """``{"name"}``, ``{"name" {0}}``, or ``{}`` for a leaf without a value."""
    cursor.expect("{")
    name = ""
    part: ShapeIndex = ()
    if cursor.kind == STRING:
        name = cursor.string()
        if cursor.sees("{"):
            part = parse_ints(cursor)
    cursor.expect("}", "after an original value")
    return name, part if name else ()


def origin_text(origin: Origin) -> str:
    """An origin in braces."""
    if origin.synthetic == _SYNTHETIC and not origin.leaves:
        return f"{{[{_SYNTHETIC}]}}"
    calls = f",[{quoted(origin.synthetic)}]" if origin.synthetic else ""
    out = [] if origin.leaves else ["()"]
    last: ShapeIndex | None = None
    for index, name, part in origin.leaves:
        out.append(_steps(last, index))
        shown = f" {{{','.join(map(str, part))}}}" if part else ""
        out.append(f"{{{quoted(name)}{shown}}}" if name else "{}")
        last = index
    return "{" + "".join(out) + ")" * len(last or ()) + calls + "}"


def _steps(last: ShapeIndex | None, index: ShapeIndex) -> str:
    """Parentheses and commas that lead from one leaf to the next."""
    if last is None:
        return _opening(index)
    common = 0
    while common < min(len(last), len(index)) - 1 and last[common] == index[common]:
        common += 1
    commas = ", " * max(0, index[common] - last[common]) if index and last else ""
    return ")" * (len(last) - common - 1) + commas + _opening(index[common + 1 :])


def _opening(index: ShapeIndex) -> str:
    return "".join("(" + ", " * step for step in index)
