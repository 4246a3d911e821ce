"""What a module says besides its computations <-> fields of ``HloModuleProto``.

The proto has no room for replica and partition counts, for alias_passthrough_params and for where
sharding may be propagated: XLA passes those beside it, so they are at their defaults when read.
Tables for debuggers (original value recovery, debug attributes) and what only XLA's own compilation
uses (profiles, prefetches, device assignment, shardings of the SPMD partitioner) are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.ir import HloComputation, ModuleHeader, ProgramShape, StackFrames
from xladev.hlo.proto.annotations import read_pairs, write_pairs
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.shapes import read_program_shape, write_program_shape
from xladev.hlo.shape import ShapeIndex

_ALIAS_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {"MAY_ALIAS": "may-alias", "MUST_ALIAS": "must-alias"}
)
_ALIAS_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {kind: name for name, kind in _ALIAS_KINDS.items()}
)
_LOCATION: Final = (
    "file_name_id", "function_name_id", "line", "end_line", "column", "end_column",
)  # fmt: skip


def read_header(message: Message, entry: HloComputation) -> ModuleHeader:
    """The header in an ``HloModuleProto`` whose entry computation is ``entry``.

    Raises:
        ProtoError: an interface that does not fit the entry, or an unknown kind of aliasing.
    """
    aliases = message.child("input_output_alias")
    donors = message.child("buffer_donor")
    frames = message.child("stack_frame_index")
    return ModuleHeader(
        is_scheduled=message.has("schedule"),
        aliases=() if aliases is None else tuple(map(_read_alias, aliases.children("entries"))),
        buffer_donors=() if donors is None else tuple(map(_read_donor, donors.children("entries"))),
        entry_layout=_read_entry_layout(message, entry),
        frontend_attributes=read_pairs(message.child("frontend_attributes")),
        backend_config=message.data("backend_config").decode("utf-8", "surrogateescape"),
        stack_frames=StackFrames() if frames is None else _read_frames(frames),
    )


def _read_entry_layout(message: Message, entry: HloComputation) -> ProgramShape | None:
    found = message.child("host_program_shape")
    if found is None or not found.has("result"):
        return None
    layout = read_program_shape(found)
    if len(layout.parameters) != len(entry.parameters):
        raise found.error(
            f"the interface has {len(layout.parameters)} parameters, "
            f"entry computation {entry.name} has {len(entry.parameters)}"
        )
    return layout


def _read_alias(message: Message) -> ModuleAlias:
    kind = message.enum("kind")
    if kind not in _ALIAS_KINDS:
        raise message.error(f"aliasing of kind {kind} is not known")
    return ModuleAlias(
        message.integers("output_shape_index"),
        message.integer("parameter_number"),
        message.integers("parameter_shape_index"),
        _ALIAS_KINDS[kind],
    )


def _read_donor(message: Message) -> tuple[int, ShapeIndex]:
    return message.integer("parameter_number"), message.integers("parameter_shape_index")


def _read_frames(message: Message) -> StackFrames:
    return StackFrames(
        message.texts("file_names"),
        message.texts("function_names"),
        tuple(_read_location(m) for m in message.children("file_locations")),
        tuple(
            (m.integer("file_location_id"), m.integer("parent_frame_id"))
            for m in message.children("stack_frames")
        ),
    )


def _read_location(message: Message) -> tuple[int, int, int, int, int, int]:
    file, function, line, end_line, column, end_column = map(message.integer, _LOCATION)
    return file, function, line, end_line, column, end_column


def write_header(
    header: ModuleHeader, entry: HloComputation, layout: ProgramShape
) -> dict[str, Any]:
    """Fields of ``HloModuleProto`` that hold a header, but for the schedule."""
    return {
        "host_program_shape": write_program_shape(layout, [p.name for p in entry.parameters]),
        "input_output_alias": _write_aliases(header),
        "buffer_donor": _write_donors(header),
        "frontend_attributes": write_pairs(header.frontend_attributes),
        "backend_config": header.backend_config.encode("utf-8", "surrogateescape") or None,
        "stack_frame_index": _write_frames(header.stack_frames),
    }


def _write_aliases(header: ModuleHeader) -> bytes | None:
    if not header.aliases:
        return None
    entries = [_write_alias(alias) for alias in header.aliases]
    return encode("HloInputOutputAliasProto", {"entries": entries})


def _write_alias(alias: ModuleAlias) -> bytes:
    return encode(
        "HloInputOutputAliasProto.AliasEntryProto",
        {
            "output_shape_index": alias.output_index,
            "parameter_number": alias.parameter,
            "parameter_shape_index": alias.parameter_index,
            "kind": _ALIAS_NAMES[alias.kind],
        },
    )


def _write_donors(header: ModuleHeader) -> bytes | None:
    if not header.buffer_donors:
        return None
    entries = [_write_donor(*donor) for donor in header.buffer_donors]
    return encode("HloBufferDonorProto", {"entries": entries})


def _write_donor(parameter: int, index: ShapeIndex) -> bytes:
    values = {"parameter_number": parameter, "parameter_shape_index": index}
    return encode("HloBufferDonorProto.BufferDonorEntryProto", values)


def _write_frames(frames: StackFrames) -> bytes | None:
    if frames == StackFrames():
        return None
    locations = [
        encode("StackFrameIndexProto.FileLocation", dict(zip(_LOCATION, loc, strict=True)))
        for loc in frames.locations
    ]
    parents = [
        encode(
            "StackFrameIndexProto.StackFrame", {"file_location_id": at, "parent_frame_id": parent}
        )
        for at, parent in frames.frames
    ]
    return encode(
        "StackFrameIndexProto",
        {
            "file_names": frames.files,
            "function_names": frames.functions,
            "file_locations": locations,
            "stack_frames": parents,
        },
    )
