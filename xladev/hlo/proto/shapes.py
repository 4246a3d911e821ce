"""Shapes and layouts <-> ``ShapeProto``, ``LayoutProto`` and ``ProgramShapeProto``."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from xladev.errors import ProtoError, ShapeError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import ProgramShape
from xladev.hlo.proto.decode import decode
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schema import ENUM_TYPES, MESSAGES
from xladev.hlo.shape import UNBOUNDED, Layout, Shape, SplitConfig, Tile, check_shape, of_each

_UNBOUNDED: Final = -(2**63)
_PARTS: Final = {dt.TUPLE: (0, inf), dt.BUFFER: (1, 1)}
"""Least and most parts of types that have any."""

_LEVELS: Final = {
    "D": "DIM_DENSE",
    "C": "DIM_COMPRESSED",
    "S": "DIM_SINGLETON",
    "H": "DIM_LOOSE_COMPRESSED",
}
_LEVEL_LETTERS: Final = {name: letter for letter, name in _LEVELS.items()}
_TYPE_NAMES: Final = ENUM_TYPES["PrimitiveType"].names


def read_shape(message: Message) -> Shape:
    """The shape in a ``ShapeProto``; nesting is bounded by the decoder.

    Raises:
        ProtoError: unknown element type, or a shape that breaks the rules of `hlo/shape.py`.
    """
    shape = _read(message)
    try:
        check_shape(shape)
    except ShapeError as failure:
        raise ProtoError(failure.what, where=message.place, why=failure.why) from failure
    return shape


def _read(message: Message) -> Shape:
    element_type = _element_type(message, "element_type")
    layout = message.child("layout")
    dynamic = message.integers("is_dynamic_dimension")
    dims = message.integers("dimensions")
    parts = of_each(message.children("tuple_shapes"), _read)
    if True in dynamic and len(dynamic) != len(dims):
        raise ProtoError(
            f"{len(dims)} dimensions have {len(dynamic)} dynamic flags", where=message.place
        )
    least, most = _PARTS.get(element_type, (0, 0))
    if (dims and not element_type.is_array) or not least <= len(parts) <= most:
        raise ProtoError(
            f"a {element_type} has {len(dims)} dimensions and {len(parts)} parts",
            where=message.place,
            why="only arrays have dimensions, only tuples parts, and a buffer exactly one",
        )
    return Shape(
        element_type,
        _read_sizes(message, dims) if dims and min(dims) < 0 else dims,
        None if layout is None or not element_type.is_array else _read_layout(layout),
        tuple(map(bool, dynamic)) if True in dynamic else (),
        parts,
    )


def _read_sizes(message: Message, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of dimensions; XLA stores the unbounded one as the least 64-bit number."""
    for size in dims:
        if size < 0 and size != _UNBOUNDED:
            raise message.error(f"a dimension has size {size}", "sizes are at least 0")
    return tuple(UNBOUNDED if size == _UNBOUNDED else size for size in dims)


def _element_type(message: Message, field: str) -> PrimitiveType:
    number = message.integer(field)
    found = dt.BY_NUMBER.get(number)
    if found is None:
        raise ProtoError(
            f"primitive type {number} is not known",
            where=message.place,
            hint="an element type is missing, or the writer is newer than this reader",
        )
    return found


def _index_type(message: Message, field: str) -> PrimitiveType | None:
    return _element_type(message, field) if message.integer(field) else None


def _read_layout(message: Message) -> Layout:
    physical = message.child("physical_shape")
    return Layout(
        minor_to_major=message.integers("minor_to_major"),
        dim_level_types=_read_levels(message),
        tiles=tuple(Tile(t.integers("dimensions")) for t in message.children("tiles")),
        tail_padding_alignment=message.integer("tail_padding_alignment_in_elements") or 1,
        index_type=_index_type(message, "index_primitive_type"),
        pointer_type=_index_type(message, "pointer_primitive_type"),
        element_bits=message.integer("element_size_in_bits"),
        memory_space=message.integer("memory_space"),
        split_configs=tuple(
            SplitConfig(s.integer("dimension"), s.integers("split_indices"))
            for s in message.children("split_configs")
        ),
        physical_shape=None if physical is None else _read(physical),
        metadata_prefix_bytes=message.integer("dynamic_shape_metadata_prefix_bytes"),
    )


def _read_levels(message: Message) -> tuple[str, ...]:
    """Levels as text has them: a letter, ``+`` where not unique, ``~`` where not ordered."""
    levels = message.enums("dim_level_types")
    unique = message.integers("dim_unique") or (True,) * len(levels)
    ordered = message.integers("dim_ordered") or (True,) * len(levels)
    if len(unique) != len(levels) or len(ordered) != len(levels):
        raise ProtoError("dimension levels and their flags differ in number", where=message.place)
    return tuple(
        _LEVEL_LETTERS[level] + ("" if u else "+") + ("" if o else "~")
        for level, u, o in zip(levels, unique, ordered, strict=True)
    )


class ShapeReader:
    """Reads encoded shapes, each different one once: programs repeat few shapes many times."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def read(self, data: bytes) -> Shape:
        """The shape in an encoded ``ShapeProto``; a ProtoError as `read_shape` raises it."""
        found = self._known.get(data)
        if found is None:
            found = self._known[data] = read_shape(decode(data, MESSAGES["ShapeProto"]))
        return found


def write_shape(shape: Shape) -> bytes:
    """The ``ShapeProto`` of a shape; parts of tuples nest at most as deep as shapes may."""
    return encode(
        "ShapeProto",
        {
            "element_type": _TYPE_NAMES[shape.element_type.number],
            "dimensions": [_UNBOUNDED if d == UNBOUNDED else d for d in shape.dims],
            "tuple_shapes": of_each(shape.tuple_shapes, write_shape),
            "layout": None if shape.layout is None else _write_layout(shape.layout),
            "is_dynamic_dimension": shape.dynamic or (False,) * shape.rank,
        },
    )


def _write_layout(layout: Layout) -> bytes:
    levels = layout.dim_level_types
    return encode(
        "LayoutProto",
        {
            "minor_to_major": layout.minor_to_major,
            "dim_level_types": [_LEVELS[level[0]] for level in levels],
            "dim_unique": _flags(["+" not in level for level in levels]),
            "dim_ordered": _flags(["~" not in level for level in levels]),
            "tiles": [encode("TileProto", {"dimensions": t.dims}) for t in layout.tiles],
            "tail_padding_alignment_in_elements": layout.tail_padding_alignment,
            "index_primitive_type": _type_name(layout.index_type),
            "pointer_primitive_type": _type_name(layout.pointer_type),
            "element_size_in_bits": layout.element_bits,
            "memory_space": layout.memory_space,
            "split_configs": [
                encode("SplitConfigProto", {"dimension": s.dimension, "split_indices": s.indices})
                for s in layout.split_configs
            ],
            "physical_shape": layout.physical_shape and write_shape(layout.physical_shape),
            "dynamic_shape_metadata_prefix_bytes": layout.metadata_prefix_bytes,
        },
    )


def _flags(flags: Sequence[bool]) -> Sequence[bool]:
    """Flags of levels; an empty list says that all are set."""
    return () if all(flags) else flags


def _type_name(element_type: PrimitiveType | None) -> str | None:
    return None if element_type is None else _TYPE_NAMES[element_type.number]


def read_program_shape(message: Message) -> ProgramShape:
    """Parameter and result shapes; a ProtoError if the result is missing or a shape malformed."""
    result = message.child("result")
    if result is None:
        raise ProtoError("a program shape has no result", where=message.place)
    parameters = of_each(message.children("parameters"), read_shape)
    return ProgramShape(parameters, read_shape(result))


def write_program_shape(shape: ProgramShape, names: Sequence[str]) -> bytes:
    """The ``ProgramShapeProto`` of an interface whose parameters have these names."""
    return encode(
        "ProgramShapeProto",
        {
            "parameters": of_each(shape.parameters, write_shape),
            "result": write_shape(shape.result),
            "parameter_names": names,
        },
    )
