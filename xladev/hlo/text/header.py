"""Parses what stands before the computations of a module: its header and stack frame tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from xladev.errors import ParseError
from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.ir import DEFAULT_HEADER, ModuleHeader, ProgramShape, StackFrames
from xladev.hlo.shape import ShapeIndex
from xladev.hlo.text.cursor import NUMBER, STRING, Cursor
from xladev.hlo.text.metadata import parse_frontend_attributes
from xladev.hlo.text.scalar_values import (
    parse_bools,
    parse_ints,
    parse_list,
    parse_raw,
    parse_string_or_json,
)
from xladev.hlo.text.shapes import parse_shape_at


@dataclass(frozen=True, slots=True)
class HeaderField:
    """One ``name=value`` of a header.

    Attributes:
        field: the field of ModuleHeader that it sets.
        parse: takes its value.
    """

    field: str
    parse: Callable[[Cursor], Any]


def _parse_alias(cursor: Cursor) -> ModuleAlias:
    """``{0}: (1, {2}, must-alias)``; the kind may be left out."""
    output = parse_ints(cursor)
    cursor.expect(":", "after an output index")
    cursor.expect("(")
    parameter = cursor.signed("a parameter number")
    cursor.expect(",")
    index = parse_ints(cursor)
    kind = "may-alias"
    if cursor.accept(","):
        start = cursor.start
        kind = cursor.word("may-alias or must-alias")
        if kind not in ("may-alias", "must-alias"):
            cursor.fail(f"expected may-alias or must-alias, not {kind!r}", start)
    cursor.expect(")", "after an alias")
    return ModuleAlias(output, parameter, index, kind)


def _parse_aliases(cursor: Cursor) -> tuple[ModuleAlias, ...]:
    return parse_list(cursor, _parse_alias)


def _parse_donor(cursor: Cursor) -> tuple[int, ShapeIndex]:
    cursor.expect("(")
    parameter = cursor.signed("a parameter number")
    cursor.expect(",")
    index = parse_ints(cursor)
    cursor.expect(")", "after a buffer donor")
    return parameter, index


def _parse_donors(cursor: Cursor) -> tuple[tuple[int, ShapeIndex], ...]:
    return parse_list(cursor, _parse_donor)


def _parse_program_shape(cursor: Cursor) -> ProgramShape:
    """``{(f32[2]{0})->f32[]}``; layouts left out are row-major."""
    cursor.expect("{", "before the layout of the entry computation")
    parameters = parse_list(cursor, parse_shape_at, "(", ")")
    cursor.expect("->", "before the result's shape")
    result = parse_shape_at(cursor)
    cursor.expect("}", "after the layout of the entry computation")
    return ProgramShape(
        tuple(p.with_default_layout() for p in parameters), result.with_default_layout()
    )


HEADER_FIELDS: Mapping[str, HeaderField] = MappingProxyType(
    {
        "is_scheduled": HeaderField("is_scheduled", Cursor.boolean),
        "replica_count": HeaderField("replica_count", Cursor.signed),
        "num_partitions": HeaderField("num_partitions", Cursor.signed),
        "input_output_alias": HeaderField("aliases", _parse_aliases),
        "buffer_donor": HeaderField("buffer_donors", _parse_donors),
        "alias_passthrough_params": HeaderField("alias_passthrough_params", Cursor.boolean),
        "entry_computation_layout": HeaderField("entry_layout", _parse_program_shape),
        "frontend_attributes": HeaderField("frontend_attributes", parse_frontend_attributes),
        "allow_spmd_sharding_propagation_to_parameters": HeaderField(
            "propagate_to_parameters", parse_bools
        ),
        "allow_spmd_sharding_propagation_to_output": HeaderField(
            "propagate_to_output", parse_bools
        ),
        "origin_recovery_table": HeaderField("origin_recovery_table", parse_raw),
        "debug_attributes": HeaderField("debug_attributes", parse_raw),
        "backend_config": HeaderField("backend_config", parse_string_or_json),
    }
)


def parse_header(cursor: Cursor) -> tuple[str, ModuleHeader]:
    """``HloModule name, key=value, ...`` and the tables behind it: the name and the header."""
    cursor.advance()
    name = cursor.string() if cursor.kind == STRING else cursor.name("the name of the module")
    cursor.accept(":")
    fields: dict[str, Any] = {}
    while cursor.accept(","):
        start = cursor.start
        key = cursor.word("a field of the module's header")
        cursor.expect("=")
        found = HEADER_FIELDS.get(key)
        if found is None:
            raise _unknown_field(cursor, start, key)
        if found.field in fields:
            cursor.fail(f"header field {key!r} is given twice", start)
        fields[found.field] = found.parse(cursor)
    frames = parse_stack_frames(cursor)
    if frames is not None:
        fields["stack_frames"] = frames
    return name, ModuleHeader(**fields) if fields else DEFAULT_HEADER


def _unknown_field(cursor: Cursor, start: int, key: str) -> ParseError:
    close = get_close_matches(key, HEADER_FIELDS, n=1) if len(key) < 80 else []
    hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(HEADER_FIELDS)}"
    return cursor.error(f"unknown header field {key!r}", start, hint=hint)


# -- FileNames, FunctionNames, FileLocations, StackFrames


def parse_stack_frames(cursor: Cursor) -> StackFrames | None:
    """The four tables, if they are there; their rows are numbered from 1."""
    if not cursor.sees_word("FileNames"):
        return None
    cursor.advance()
    files = _parse_rows(cursor, Cursor.string)
    _expect_table(cursor, "FunctionNames")
    functions = _parse_rows(cursor, Cursor.string)
    _expect_table(cursor, "FileLocations")
    locations = _parse_rows(cursor, lambda c: _parse_record(c, LOCATION_FIELDS))
    _expect_table(cursor, "StackFrames")
    frames = _parse_rows(cursor, lambda c: _parse_record(c, FRAME_FIELDS))
    return StackFrames(
        tuple(files),
        tuple(functions),
        tuple((r[0], r[1], r[2], r[3], r[4], r[5]) for r in locations),
        tuple((location, parent - 1) for location, parent in frames),
    )


LOCATION_FIELDS = (
    "file_name_id", "function_name_id", "line", "end_line", "column", "end_column",
)  # fmt: skip
FRAME_FIELDS = ("file_location_id", "parent_frame_id")


def _expect_table(cursor: Cursor, name: str) -> None:
    if not cursor.accept_word(name):
        cursor.fail(f"expected table {name}, not {cursor.seen()}")


def _parse_rows(cursor: Cursor, parse: Callable[[Cursor], Any]) -> list[Any]:
    rows: list[Any] = []
    while cursor.kind == NUMBER:
        cursor.signed()
        rows.append(parse(cursor))
    return rows


def _parse_record(cursor: Cursor, names: tuple[str, ...]) -> tuple[int, ...]:
    """``{line=1 column=2}`` with all of ``names``, in any order."""
    start = cursor.start
    cursor.expect("{")
    values: dict[str, int] = {}
    while not cursor.sees("}"):
        name = cursor.word("a field of a stack frame table")
        cursor.expect("=")
        values[name] = cursor.signed32()
        cursor.accept(",")
    if sorted(values) != sorted(names):
        cursor.fail(f"a row has {', '.join(names)}", start)
    cursor.advance()
    return tuple(values[name] for name in names)
