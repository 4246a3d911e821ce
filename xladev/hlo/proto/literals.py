"""Constants <-> ``LiteralProto``, bit for bit.

Elements are in the order of the literal's layout, minor dimension first. Types of 8 to 16 bits are
kept as little-endian bytes, smaller ones in the low bits of one byte each (XLA's literal.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from xladev.errors import LiteralError, ProtoError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array, Literal
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.packed import pack_varints, unpack_varints
from xladev.hlo.proto.schema import MESSAGES, FieldKind
from xladev.hlo.proto.shapes import read_shape, write_shape
from xladev.hlo.shape import Shape

_FIELDS: Final[Mapping[PrimitiveType, str]] = MappingProxyType(
    {t: f"{t.name}s" for t in dt.ARRAY_TYPES} | {dt.PRED: "preds"}
)
_VARINTS: Final = frozenset(
    {FieldKind.BOOL, FieldKind.INT32, FieldKind.INT64, FieldKind.UINT32, FieldKind.UINT64},
)


@dataclass(frozen=True, slots=True)
class _Storage:
    """How elements of one type are kept: bytes to a flat array and back."""

    read: Callable[[bytes | memoryview, PrimitiveType], Array]
    write: Callable[[Array], bytes]


def _read_plain(data: bytes | memoryview, element_type: PrimitiveType) -> Array:
    dtype = element_type.np.newbyteorder("<") if element_type.np.itemsize > 1 else element_type.np
    if len(data) % dtype.itemsize:
        raise ProtoError(f"{len(data)} bytes are no whole number of {element_type} elements")
    return np.frombuffer(data, dtype).astype(element_type.np, copy=False)


def _read_masked(data: bytes | memoryview, element_type: PrimitiveType) -> Array:
    low = np.frombuffer(data, np.uint8) & np.uint8((1 << element_type.bits) - 1)
    return low.view(element_type.np)


def _write_plain(flat: Array) -> bytes:
    return flat.tobytes()


def _read_varints(data: bytes | memoryview, element_type: PrimitiveType) -> Array:
    values = unpack_varints(data)
    return (values != 0) if element_type is dt.PRED else values.astype(element_type.np)


_PLAIN: Final = _Storage(_read_plain, _write_plain)
_MASKED: Final = _Storage(_read_masked, _write_plain)
_VARINT: Final = _Storage(_read_varints, pack_varints)


def _storage(element_type: PrimitiveType) -> _Storage:
    field = MESSAGES["LiteralProto"].fields[_FIELDS[element_type]]
    if field.kind in _VARINTS:
        return _VARINT
    return _MASKED if element_type.bits < 8 else _PLAIN


_STORAGE: Final[Mapping[PrimitiveType, _Storage]] = MappingProxyType(
    {t: _storage(t) for t in dt.ARRAY_TYPES}
)


def read_literal(message: Message) -> Literal:
    """The constant in a ``LiteralProto``.

    Raises:
        ProtoError: missing or malformed shape, or a number of elements that does not fit it.
    """
    shape_message = message.child("shape")
    if shape_message is None:
        raise ProtoError("a literal has no shape", where=message.place)
    return _read(message, read_shape(shape_message))


def _read(message: Message, shape: Shape) -> Literal:
    if shape.is_tuple:
        parts = message.children("tuple_literals")
        if len(parts) != len(shape.tuple_shapes):
            raise ProtoError(
                f"a literal of {len(shape.tuple_shapes)} parts has {len(parts)}",
                where=message.place,
            )
        return Literal(shape, parts=tuple(map(_read, parts, shape.tuple_shapes)))
    if not shape.is_array:
        return Literal(shape)
    return Literal(shape, _read_array(message, shape))


def _read_array(message: Message, shape: Shape) -> Array:
    if message.integers("dynamic_sizes") not in ((), shape.dims):
        raise ProtoError("a literal is smaller than its shape's bound", where=message.place)
    element_type = shape.element_type
    name = _FIELDS[element_type]
    data = message.raw(name)
    try:
        flat = _STORAGE[element_type].read(data, element_type)
    except ProtoError as failure:
        raise failure.at(message.place) from None
    if flat.size != shape.size:
        raise ProtoError(
            f"a literal of shape {shape} has {flat.size} elements, not {shape.size}",
            where=message.place,
        )
    return _to_rows(flat, shape)


def _to_rows(flat: Array, shape: Shape) -> Array:
    """Elements in layout order as an array in C order."""
    major_to_minor = shape.minor_to_major[::-1]
    stored = flat.reshape([shape.dims[d] for d in major_to_minor])
    order = np.argsort(major_to_minor) if major_to_minor else ()
    return np.ascontiguousarray(stored.transpose(order)).reshape(shape.dims)


def write_literal(literal: Literal) -> bytes:
    """The ``LiteralProto`` of a constant.

    Raises:
        LiteralError: a value that the text elided.
    """
    shape = literal.shape
    # XLA refuses literals without a layout
    values: dict[str, Any] = {"shape": write_shape(shape.with_default_layout())}
    if literal.elided:
        raise LiteralError(
            f"the value of a constant of shape {shape} was elided in the text",
            hint="export the serialized proto, or text with large constants printed",
        )
    if literal.parts:
        values["tuple_literals"] = [write_literal(part) for part in literal.parts]
    if literal.array is not None:
        stored = literal.array.transpose(shape.minor_to_major[::-1])
        flat = np.ascontiguousarray(stored).reshape(-1)
        values[_FIELDS[shape.element_type]] = _STORAGE[shape.element_type].write(flat)
    return encode("LiteralProto", values)
