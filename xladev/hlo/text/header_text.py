"""Prints what stands before the computations of a module: its header and stack frame tables."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.ir import HloModule, ModuleHeader, ProgramShape, StackFrames
from xladev.hlo.shape import ShapeIndex, tuple_of
from xladev.hlo.text.header import FRAME_FIELDS, LOCATION_FIELDS
from xladev.hlo.text.metadata import frontend_attributes_text, quoted, string_or_json_text
from xladev.hlo.text.windows import index_text


def header_text(module: HloModule, name: str, *, stack_frames: bool) -> str:
    """``HloModule name, key=value, ...`` and, where asked for and not empty, the tables."""
    fields = ", ".join((f"HloModule {name}", *_fields(module.header, module.entry_layout)))
    frames = module.header.stack_frames
    if not stack_frames or frames == StackFrames():
        return fields
    return fields + "\n\n" + _tables_text(frames)


def _fields(header: ModuleHeader, layout: ProgramShape) -> Iterator[str]:
    if header.is_scheduled:
        yield "is_scheduled=true"
    if header.aliases:
        yield "input_output_alias={ " + ", ".join(map(_alias_text, header.aliases)) + " }"
    if header.buffer_donors:
        yield "buffer_donor={ " + ", ".join(map(_donor_text, header.buffer_donors)) + " }"
    if header.alias_passthrough_params:
        yield "alias_passthrough_params=true"
    yield f"entry_computation_layout={{{_program_shape_text(layout)}}}"
    if header.propagate_to_parameters:
        flags = _flags_text(header.propagate_to_parameters)
        yield f"allow_spmd_sharding_propagation_to_parameters={flags}"
    if header.propagate_to_output:
        flags = _flags_text(header.propagate_to_output)
        yield f"allow_spmd_sharding_propagation_to_output={flags}"
    if header.replica_count != 1:
        yield f"replica_count={header.replica_count}"
    if header.num_partitions != 1:
        yield f"num_partitions={header.num_partitions}"
    if header.frontend_attributes:
        yield f"frontend_attributes={frontend_attributes_text(header.frontend_attributes)}"
    if header.backend_config:
        yield f"backend_config={string_or_json_text(header.backend_config)}"
    if header.origin_recovery_table:
        yield f"origin_recovery_table={header.origin_recovery_table}"
    if header.debug_attributes:
        yield f"debug_attributes={header.debug_attributes}"


def _alias_text(alias: ModuleAlias) -> str:
    source = f"{alias.parameter}, {index_text(alias.parameter_index)}, {alias.kind}"
    return f"{index_text(alias.output_index)}: ({source})"


def _donor_text(donor: tuple[int, ShapeIndex]) -> str:
    return f"({donor[0]}, {index_text(donor[1])})"


def _program_shape_text(layout: ProgramShape) -> str:
    """``(f32[2]{0})->f32[]``; parameters are spelled as the tuple of them is."""
    return f"{tuple_of(*layout.parameters)}->{layout.result}"


def _flags_text(flags: tuple[bool, ...]) -> str:
    return "{" + ",".join("true" if f else "false" for f in flags) + "}"


# -- tables


def _tables_text(frames: StackFrames) -> str:
    parents_from_1 = [(location, parent + 1) for location, parent in frames.frames]
    tables = (
        ("FileNames", list(map(quoted, frames.files))),
        ("FunctionNames", list(map(quoted, frames.functions))),
        ("FileLocations", [_record_text(LOCATION_FIELDS, row) for row in frames.locations]),
        ("StackFrames", [_record_text(FRAME_FIELDS, row) for row in parents_from_1]),
    )
    return "\n\n".join(_table_text(name, rows) for name, rows in tables) + "\n"


def _table_text(name: str, rows: list[str]) -> str:
    return "\n".join((name, *(f"{i} {row}" for i, row in enumerate(rows, start=1))))


def _record_text(names: tuple[str, ...], row: tuple[int, ...]) -> str:
    return "{" + " ".join(f"{n}={v}" for n, v in zip(names, row, strict=True)) + "}"
