"""Attributes that one codec per kind cannot read: split over fields, or read by the operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from xladev.errors import ProtoError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups, Sharding, Window
from xladev.hlo.ir import HloInstruction
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.groups import read_groups, write_groups
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.shapes import read_shape, write_shape
from xladev.hlo.proto.shardings import read_sharding, write_sharding
from xladev.hlo.proto.sparsity import (
    read_block_scaling,
    read_sparsity,
    write_block_scaling,
    write_sparsity,
)
from xladev.hlo.proto.values import read_window, write_window
from xladev.hlo.shape import Shape

Operands = Sequence[HloInstruction]


@dataclass(frozen=True, slots=True)
class ProtoCodec:
    """How one attribute is read and written.

    Attributes:
        read: value from the instruction's message and operands; None where it is not set.
        write: value and instruction to fields by dotted name.
        writes_none: True if ``write`` has something to say where the attribute is not set.
    """

    read: Callable[[Message, Operands], Any]
    write: Callable[[Any, HloInstruction], dict[str, Any]]
    writes_none: bool = False


def _read_channel(message: Message, operands: Operands) -> int | None:
    """A channel; ids that are not positive mean none, and old writers used another field."""
    channel = message.integer("channel_id")
    channel = channel if channel > 0 else message.integer("all_reduce_id")
    return channel if channel > 0 else None


def _write_channel(value: int, instruction: HloInstruction) -> dict[str, Any]:
    return {"channel_id": value}


def _read_replica_groups(message: Message, operands: Operands) -> ReplicaGroups:
    return read_groups(message)


def _write_replica_groups(value: ReplicaGroups, instruction: HloInstruction) -> dict[str, Any]:
    return write_groups(value)


_COMPARISON_TYPES: Final = frozenset({"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"})


def _read_comparison(message: Message, operands: Operands) -> str | None:
    """TOTALORDER for floats in total order; for other types the type follows the operands'.

    Older writers name a type, newer ones an order, which is total for integers too.
    """
    kind, order = message.text("comparison_type"), message.text("comparison_order")
    if kind not in _COMPARISON_TYPES or order not in ("", "TOTAL", "PARTIAL"):
        raise message.error(f"comparison of type {kind!r} and order {order!r} is not known")
    floats = bool(operands) and operands[0].shape.element_type.is_float
    total = kind == "TOTALORDER" or order == "TOTAL"
    return "TOTALORDER" if floats and total else None


def _write_comparison(value: str | None, instruction: HloInstruction) -> dict[str, Any]:
    """Type and order, for older and newer readers."""
    operands = instruction.operands
    kind = value or _comparison_type(operands[0].shape.element_type if operands else dt.F32)
    order = "PARTIAL" if kind == "FLOAT" else "TOTAL"
    return {"comparison_type": kind, "comparison_order": order}


def _comparison_type(element_type: dt.PrimitiveType) -> str:
    """The type by which elements are compared where the instruction names none."""
    if element_type.is_float or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed else "UNSIGNED"


def _read_layout_constraints(message: Message, operands: Operands) -> tuple[Shape, ...] | None:
    if not message.flag("constrain_layout"):
        return None
    return tuple(map(read_shape, message.children("operand_shapes_with_layout")))


def _write_layout_constraints(
    value: Sequence[Shape], instruction: HloInstruction
) -> dict[str, Any]:
    shapes = [write_shape(shape) for shape in value]
    return {"constrain_layout": True, "operand_shapes_with_layout": shapes}


def _read_slice_sizes(message: Message, operands: Operands) -> tuple[tuple[int, ...], ...]:
    """Sizes of the slices that a collective-permute moves, one list for each array it takes."""
    sizes = list(message.integers("dynamic_slice_sizes"))
    ranks = list(_ranks(operands)) if sizes else []
    if sizes and (not ranks or not any(ranks)):
        raise message.error("slice sizes without an array to slice")
    lists: list[tuple[int, ...]] = []
    while sizes:
        rank = ranks[len(lists) % len(ranks)]
        if not rank or len(sizes) < rank:
            raise message.error("slice sizes do not fit the operands' ranks")
        lists.append(tuple(sizes[:rank]))
        del sizes[:rank]
    return tuple(lists)


def _ranks(operands: Operands) -> Iterator[int]:
    if operands:
        shape = operands[0].shape
        yield from (s.rank for s in (shape.tuple_shapes if shape.is_tuple else (shape,)))


def _write_slice_sizes(
    value: Sequence[Sequence[int]], instruction: HloInstruction
) -> dict[str, Any]:
    return {"dynamic_slice_sizes": [size for sizes in value for size in sizes]}


def _read_domain(message: Message, operands: Operands) -> tuple[Sharding, Sharding] | None:
    """(entry, exit) as text has them; XLA keeps each in the field that is named for the other."""
    entry = message.child("domain_exit_sharding")
    leave = message.child("domain_entry_sharding")
    if entry is None or leave is None:
        return None
    return read_sharding(entry), read_sharding(leave)


def _write_domain(value: tuple[Sharding, Sharding], instruction: HloInstruction) -> dict[str, Any]:
    entry, leave = map(write_sharding, value)
    return {"domain_exit_sharding": entry, "domain_entry_sharding": leave}


def _read_mode(message: Message, operands: Operands) -> str | None:
    """How a shuffle moves elements; rotation is the one mode there is."""
    mode = message.child("shuffle_mode")
    return "rotate" if mode is not None and mode.has("rotate") else None


def _write_mode(value: str, instruction: HloInstruction) -> dict[str, Any]:
    if value != "rotate":
        raise ProtoError(f"shuffle has no mode {value!r}", hint="the one mode is rotate")
    return {}


def _read_shifts(message: Message, operands: Operands) -> tuple[int, ...]:
    mode = message.child("shuffle_mode")
    rotate = None if mode is None else mode.child("rotate")
    return () if rotate is None else rotate.integers("shifts")


def _write_shifts(value: Sequence[int], instruction: HloInstruction) -> dict[str, Any]:
    if not value and instruction["mode"] is None:
        return {}
    return {"shuffle_mode.rotate": encode("ShuffleMode.Rotate", {"shifts": value})}


def _read_window(message: Message, operands: Operands) -> Window | None:
    found = message.child("window")
    return None if found is None else read_window(found)


def _write_window(value: Window, instruction: HloInstruction) -> dict[str, Any]:
    """Even a window of no dimensions, which XLA asks of every convolution."""
    return {"window": write_window(value)}


def _config(
    field: str, read: Callable[[Message], str | None], write: Callable[[str], bytes]
) -> ProtoCodec:
    """Codec of a configuration that the IR keeps as text."""

    def read_field(message: Message, operands: Operands) -> str | None:
        found = message.child(field)
        return None if found is None else read(found)

    return ProtoCodec(read_field, lambda value, instruction: {field: write(value)})


SPECIAL: Final[Mapping[tuple[str, str], ProtoCodec]] = MappingProxyType(
    {
        ("", "channel_id"): ProtoCodec(_read_channel, _write_channel),
        ("", "replica_groups"): ProtoCodec(_read_replica_groups, _write_replica_groups),
        ("compare", "type"): ProtoCodec(_read_comparison, _write_comparison, writes_none=True),
        ("", "operand_layout_constraints"): ProtoCodec(
            _read_layout_constraints, _write_layout_constraints
        ),
        ("collective-permute", "slice_sizes"): ProtoCodec(_read_slice_sizes, _write_slice_sizes),
        ("collective-permute-start", "slice_sizes"): ProtoCodec(
            _read_slice_sizes, _write_slice_sizes
        ),
        ("convolution", "window"): ProtoCodec(_read_window, _write_window),
        ("domain", "domain"): ProtoCodec(_read_domain, _write_domain),
        ("shuffle", "mode"): ProtoCodec(_read_mode, _write_mode),
        ("shuffle", "shifts"): ProtoCodec(_read_shifts, _write_shifts),
        ("", "sparsity_config"): _config("sparsity_config", read_sparsity, write_sparsity),
        ("", "block_scaling_config"): _config(
            "block_scaling_config", read_block_scaling, write_block_scaling
        ),
    }
)
"""Codecs by opcode and attribute; of any opcode where that is empty."""
