"""Annotations of instructions <-> fields of ``HloInstructionProto``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from xladev.hlo.attributes import NO_METADATA, Origin
from xladev.hlo.device_attribute import with_device, without_device
from xladev.hlo.ir import NO_ANNOTATIONS, Annotations, HloInstruction, StringPairs
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.metadata import read_metadata, write_metadata
from xladev.hlo.proto.shardings import read_sharding, write_sharding

_VISUALIZING: Final = "visualizing_index"
_WORD: Final = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
"""Name under which the index of the statistic to visualise stands before the others."""

_SYNTHETIC: Final = "synthetic_call"
"""``Origin.synthetic`` of a call that no original instruction stands for."""


def read_pairs(message: Message | None) -> StringPairs:
    """Frontend attributes, sorted by key."""
    return () if message is None else tuple(sorted(message.mapping("map").items()))


def write_pairs(pairs: StringPairs) -> bytes | None:
    """The ``FrontendAttributes`` of key and value pairs; None if there are none."""
    if not pairs:
        return None
    entries = [encode("FrontendAttributes.MapEntry", {"key": k, "value": v}) for k, v in pairs]
    return encode("FrontendAttributes", {"map": entries})


def read_annotations(
    message: Message, predecessors: tuple[HloInstruction, ...], payloads: Sequence[bytes]
) -> Annotations:
    """What an instruction carries besides its meaning.

    Args:
        message: the instruction.
        predecessors: the instructions that must run before it.
        payloads: the module's table of long backend configurations.

    Raises:
        ProtoError: a malformed sharding, or a payload that the module lacks.
    """
    metadata = message.child("metadata")
    sharding = message.child("sharding")
    origin = message.child("original_value")
    attributes, device = without_device(read_pairs(message.child("frontend_attributes")))
    note = Annotations(
        metadata=NO_METADATA if metadata is None else read_metadata(metadata),
        sharding=None if sharding is None else read_sharding(sharding),
        frontend_attributes=attributes,
        backend_config=_read_backend_config(message, payloads),
        control_predecessors=predecessors,
        origin=None if origin is None else _read_origin(origin),
        statistics=_read_statistics(message.child("statistics_viz")),
        device=device,
    )
    return NO_ANNOTATIONS if note == NO_ANNOTATIONS else note


def _read_backend_config(message: Message, payloads: Sequence[bytes]) -> str:
    payload = message.child("backend_config_payload")
    data = message.data("backend_config")
    if payload is not None and payload.has("id"):
        number = payload.integer("id")
        if not 0 <= number < len(payloads):
            raise payload.error(f"the module has no payload {number}; it has {len(payloads)}")
        data = payloads[number]
    elif payload is not None:
        data = payload.data("value")
    return data.decode("utf-8", "surrogateescape")


def _read_origin(message: Message) -> Origin:
    synthetic = message.text("call_hierarchy")
    if message.flag("is_synthetic_call"):
        synthetic = synthetic or _SYNTHETIC
    leaves = tuple(map(_read_origin_leaf, message.children("elements")))
    return Origin(leaves, synthetic)


def _read_origin_leaf(message: Message) -> tuple[tuple[int, ...], str, tuple[int, ...]]:
    array = message.child("original_array")
    index = message.integers("shape_index")
    if array is None:
        return index, "", ()
    return index, array.text("instruction_name"), array.integers("shape_index")


def _read_statistics(message: Message | None) -> tuple[tuple[str, float], ...]:
    if message is None:
        return ()
    found = message.children("statistics")
    for s in found:
        if not _WORD.fullmatch(s.text("stat_name")):
            raise s.error(f"a statistic is called {s.text('stat_name')!r}", "its name is a word")
    values = tuple((s.text("stat_name"), s.real("stat_val")) for s in found)
    return (
        ((_VISUALIZING, float(message.integer("stat_index_to_visualize"))), *values)
        if found
        else ()
    )


def write_annotations(note: Annotations) -> Mapping[str, Any]:
    """Fields of ``HloInstructionProto`` that hold annotations, but for control predecessors."""
    fields: dict[str, Any] = {}
    if note.metadata is not NO_METADATA:
        fields["metadata"] = write_metadata(note.metadata)
    if note.sharding is not None:
        fields["sharding"] = write_sharding(note.sharding)
    attributes = with_device(note.frontend_attributes, note.device)
    if attributes:
        fields["frontend_attributes"] = write_pairs(attributes)
    if note.backend_config:
        fields["backend_config"] = note.backend_config.encode("utf-8", "surrogateescape")
    if note.origin is not None:
        fields["original_value"] = _write_origin(note.origin)
    if note.statistics:
        fields["statistics_viz"] = _write_statistics(note.statistics)
    return fields


def _write_origin(origin: Origin) -> bytes:
    values: dict[str, Any] = {"elements": [_write_origin_leaf(*leaf) for leaf in origin.leaves]}
    if origin.synthetic:
        values["is_synthetic_call"] = not origin.leaves
        values["call_hierarchy"] = "" if origin.synthetic == _SYNTHETIC else origin.synthetic
    return encode("OriginalValueProto", values)


def _write_origin_leaf(index: tuple[int, ...], name: str, leaf: tuple[int, ...]) -> bytes:
    array = encode("OriginalArrayProto", {"instruction_name": name, "shape_index": leaf})
    values = {"shape_index": index, "original_array": array if name else None}
    return encode("OriginalValueElementProto", values)


def _write_statistics(statistics: Sequence[tuple[str, float]]) -> bytes:
    index = [int(value) for name, value in statistics if name == _VISUALIZING]
    entries = [
        encode("Statistic", {"stat_name": name, "stat_val": value})
        for name, value in statistics
        if name != _VISUALIZING
    ]
    values = {"stat_index_to_visualize": index[0] if index else 0, "statistics": entries}
    return encode("StatisticsViz", values)
