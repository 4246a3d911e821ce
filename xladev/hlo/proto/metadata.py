"""Source metadata <-> ``OpMetadata``."""

from __future__ import annotations

from typing import Final

from xladev.hlo.attributes import NO_METADATA, Metadata
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message

_TEXTS: Final = ("op_type", "op_name", "source_file", "scheduling_name", "deduplicated_name")
_INTEGERS: Final = (
    "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
    "size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes",
)  # fmt: skip


def read_metadata(message: Message) -> Metadata:
    """The metadata in an ``OpMetadata``; payloads of compilers are dropped."""
    if not message.values:
        return NO_METADATA
    return Metadata(
        op_type=message.text("op_type"),
        op_name=message.text("op_name"),
        source_file=message.text("source_file"),
        source_line=message.integer("source_line"),
        source_end_line=message.integer("source_end_line"),
        source_column=message.integer("source_column"),
        source_end_column=message.integer("source_end_column"),
        stack_frame_id=message.integer("stack_frame_id"),
        scheduling_name=message.text("scheduling_name"),
        deduplicated_name=message.text("deduplicated_name"),
        profile_type=message.integers("profile_type"),
        size_of_generated_code_in_bytes=message.integer("size_of_generated_code_in_bytes"),
        size_of_memory_working_set_in_bytes=message.integer("size_of_memory_working_set_in_bytes"),
        preserve_layout=message.flag("preserve_layout"),
    )


def write_metadata(metadata: Metadata) -> bytes:
    """The ``OpMetadata`` of metadata."""
    values = {name: getattr(metadata, name) for name in (*_TEXTS, *_INTEGERS)}
    values["profile_type"] = metadata.profile_type
    values["preserve_layout"] = metadata.preserve_layout
    return encode("OpMetadata", values)
