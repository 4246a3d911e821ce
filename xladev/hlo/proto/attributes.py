"""Attributes of instructions <-> fields of ``HloInstructionProto``.

The opset says where each attribute is kept (`Attr.proto`); a codec per kind reads and writes it.
The few that are kept otherwise have codecs of their own, in `special.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from xladev.errors import ProtoError
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opdef import COMPUTATION_KINDS, Attr, AttrKind, OpDef
from xladev.hlo.opset import OPSET
from xladev.hlo.proto import values as structured
from xladev.hlo.proto.literals import read_literal, write_literal
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.path import Path, path_of
from xladev.hlo.proto.schema import FieldKind
from xladev.hlo.proto.shapes import read_shape, write_shape
from xladev.hlo.proto.special import SPECIAL, ProtoCodec
from xladev.hlo.proto.words import to_name, to_word

TEXT_ONLY: Final = frozenset({("bitcast", "result_layout")})
"""Attributes that text has or had, and current protos have no field for."""

_Get = Callable[[Message, Path, Attr], Any]
_Put = Callable[[Any, Path], Any]


def _get_int(message: Message, path: Path, attr: Attr) -> int | None:
    if path.field.repeated:
        found = message.integers(path.field.name)
        return found[0] if found else None
    if attr.default is not None:
        return message.integer(path.field.name) or None
    if attr.required or message.has(path.field.name):
        return message.integer(path.field.name)
    return None


def _put_int(value: int, path: Path) -> Any:
    if path.field.repeated:
        return (value,) if value >= 0 else ()
    return value


def _get_bool(message: Message, path: Path, attr: Attr) -> bool:
    return message.flag(path.field.name)


def _get_float(message: Message, path: Path, attr: Attr) -> float:
    """The shortest decimal that means the field's 32 bits, so that text and proto agree."""
    return float(str(np.float32(message.real(path.field.name))))


def _get_string(message: Message, path: Path, attr: Attr) -> str:
    if path.field.kind is FieldKind.BYTES:
        return message.data(path.field.name).decode("utf-8", "surrogateescape")
    return message.text(path.field.name)


def _put_string(value: str, path: Path) -> Any:
    if path.field.kind is FieldKind.BYTES:
        return value.encode("utf-8", "surrogateescape")
    return value


def _get_word(message: Message, path: Path, attr: Attr) -> str | None:
    if path.field.kind is FieldKind.STRING:
        return message.text(path.field.name) or None
    return to_word(path.field.type_name, message.enum(path.field.name))


def _put_word(value: str, path: Path) -> Any:
    return value if path.field.kind is FieldKind.STRING else to_name(path.field.type_name, value)


def _get_words(message: Message, path: Path, attr: Attr) -> tuple[str, ...] | None:
    """Words of a list; None where all are the first of the enum, as text omits those."""
    names = message.enums(path.field.name)
    words = tuple(to_word(path.field.type_name, name) or "" for name in names)
    return words if any(message.integers(path.field.name)) else None


def _put_words(value: Sequence[str], path: Path) -> Any:
    return [to_name(path.field.type_name, word) or word for word in value]


def _get_integers(message: Message, path: Path, attr: Attr) -> tuple[int, ...] | None:
    found = message.integers(path.field.name)
    return found if found or attr.required or attr.default is not None else None


def _as_is(value: Any, path: Path) -> Any:
    return value


def _child(read: Callable[[Message], Any]) -> _Get:
    def get(message: Message, path: Path, attr: Attr) -> Any:
        found = message.child(path.field.name)
        return None if found is None else read(found)

    return get


def _children(read: Callable[[Message], Any]) -> _Get:
    def get(message: Message, path: Path, attr: Attr) -> Any:
        return tuple(map(read, message.children(path.field.name)))

    return get


def _one(write: Callable[[Any], bytes]) -> _Put:
    """Puts one part; none for the empty tuple, so that an unset window stays unset."""
    return lambda value, path: None if value == () else write(value)


def _each(write: Callable[[Any], bytes]) -> _Put:
    return lambda value, path: [write(item) for item in value]


_CODECS: Final[Mapping[AttrKind, tuple[_Get, _Put]]] = MappingProxyType(
    {
        AttrKind.INT: (_get_int, _put_int),
        AttrKind.NUMBER: (_get_int, _put_int),
        AttrKind.BOOL: (_get_bool, _as_is),
        AttrKind.FLOAT: (_get_float, _as_is),
        AttrKind.STRING: (_get_string, _put_string),
        AttrKind.WORD: (_get_word, _put_word),
        AttrKind.WORDS: (_get_words, _put_words),
        AttrKind.INTS: (_get_integers, _as_is),
        AttrKind.BOOLS: (_get_integers, _as_is),
        AttrKind.LITERAL: (_child(read_literal), _one(write_literal)),
        AttrKind.SHAPE: (_child(read_shape), _one(write_shape)),
        AttrKind.WINDOW: (_child(structured.read_window), _one(structured.write_window)),
        AttrKind.CONV_DIMS: (_child(structured.read_conv_dims), _one(structured.write_conv_dims)),
        AttrKind.SLICE: (
            _children(structured.read_slice_dim),
            _each(structured.write_slice_dim),
        ),
        AttrKind.PADDING: (_child(structured.read_padding), _one(structured.write_padding)),
        AttrKind.PAIRS: (_children(structured.read_pair), _each(structured.write_pair)),
        AttrKind.ALIASING: (
            _children(structured.read_output_alias),
            _each(structured.write_output_alias),
        ),
        AttrKind.ACCURACY: (_child(structured.read_accuracy), _one(structured.write_accuracy)),
    }
)


def _codec(attr: Attr, path: Path) -> ProtoCodec:
    """The codec of an attribute's kind, bound to its field."""
    get, put = _CODECS[attr.kind]

    def read(message: Message, operands: Sequence[HloInstruction]) -> Any:
        holder = path.holder(message)
        return None if holder is None else get(holder, path, attr)

    def write(value: Any, instruction: HloInstruction) -> dict[str, Any]:
        return {path.dotted: put(value, path)}

    return ProtoCodec(read, write)


@dataclass(frozen=True, slots=True)
class AttributeBinding:
    """One attribute of one opcode and its codec."""

    attr: Attr
    codec: ProtoCodec


@cache
def bindings(opcode: str) -> tuple[AttributeBinding, ...]:
    """Attributes of an opcode, those that name computations excepted."""
    attrs = OPSET[opcode].attrs
    return tuple(
        AttributeBinding(attr, _bound(opcode, attr))
        for attr in attrs
        if attr.kind not in COMPUTATION_KINDS and (opcode, attr.name) not in TEXT_ONLY
    )


def _bound(opcode: str, attr: Attr) -> ProtoCodec:
    special = SPECIAL.get((opcode, attr.name)) or SPECIAL.get(("", attr.name))
    if special is not None:
        return special
    return _codec(attr, path_of(attr.proto or attr.name))


def read_attributes(
    op: OpDef, message: Message, operands: Sequence[HloInstruction]
) -> dict[str, Any]:
    """Attributes that an instruction's message sets, by text name.

    Raises:
        ProtoError: a required attribute is missing, or a value is malformed.
    """
    found: dict[str, Any] = {}
    for binding in bindings(op.name):
        value = binding.codec.read(message, operands)
        if value is not None:
            found[binding.attr.name] = value
        elif binding.attr.required:
            raise message.error(f"{op.name} lacks its {binding.attr.name}")
    return found


def write_attributes(instruction: HloInstruction) -> dict[str, Any]:
    """Fields of ``HloInstructionProto``, dotted where nested, that hold the attributes.

    Raises:
        ProtoError: a value that the proto has no name or room for.
    """
    fields: dict[str, Any] = {}
    for binding in bindings(instruction.opcode):
        value = instruction[binding.attr.name]
        if value is None and not binding.codec.writes_none:
            continue
        fields.update(binding.codec.write(value, instruction))
    _check_text_only(instruction)
    return fields


def _check_text_only(instruction: HloInstruction) -> None:
    for name in instruction.attrs:
        if (instruction.opcode, name) in TEXT_ONLY:
            raise ProtoError(f"{instruction.opcode}'s {name} has no field in the proto")
