"""Values by field name to the bytes of a message, parts first.

A message is written after its parts, which are given as bytes: encoding never nests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from xladev.errors import ProtoError
from xladev.hlo.proto import wire
from xladev.hlo.proto.schema import ENUM_TYPES, MESSAGES, Field, FieldKind

Values = Mapping[str, Any]
"""Values by field name: numbers, text, bytes (encoded messages too), lists of these, or None."""


def _int(value: int) -> bytes:
    return wire.varint(int(value))


def _sized(value: bytes) -> bytes:
    return wire.varint(len(value)) + value


def _text(value: str) -> bytes:
    try:
        return _sized(value.encode("utf-8"))
    except UnicodeEncodeError as failure:
        raise ProtoError(f"{value!r} is not text that UTF-8 can hold") from failure


_PAYLOADS: Final[Mapping[FieldKind, Callable[[Any], bytes]]] = MappingProxyType(
    dict.fromkeys(FieldKind, _int)
    | {
        FieldKind.FLOAT: wire.float_bytes,
        FieldKind.DOUBLE: wire.double_bytes,
        FieldKind.STRING: _text,
        FieldKind.BYTES: _sized,
        FieldKind.MESSAGE: _sized,
    }
)
_PLAIN: Final = frozenset({int, bool, str, bytes, tuple, list})
"""Types whose empty or zero value is the default of a field, repeated or not."""
_SIZED: Final = frozenset({FieldKind.STRING, FieldKind.BYTES, FieldKind.MESSAGE})


class _Slot(NamedTuple):
    """How to write the value of one field.

    Attributes:
        number: field number, by which fields are sorted.
        tag: what precedes the value.
        write: appends a value to a list of pieces.
        payload: bytes of one value.
        keeps_zero: True if a value at its default is written.
        leaves_empty: True if an empty value, or a zero that is no float, is left out.
        enum: numbers by name, for enums.
    """

    number: int
    tag: bytes
    write: Callable[[list[bytes], _Slot, Any], None]
    payload: Callable[[Any], bytes]
    keeps_zero: bool
    leaves_empty: bool
    enum: Mapping[str, int] | None


def encode(message: str, values: Values) -> bytes:
    """The bytes of the named message, fields in order of their numbers.

    Fields at their proto3 default are left out, except those with presence and messages (an empty
    message is written where its bytes are empty, and left out where None). Enums are given by name.

    Raises:
        ProtoError: a number that does not fit its field, or an unknown name of an enum's value.
    """
    out: list[bytes] = []
    for slot, name in _ordered(message, tuple(values)):
        value = values[name]
        if value is None or (not value and value.__class__ in _PLAIN and slot.leaves_empty):
            continue
        try:
            slot.write(out, slot, value)
        except (ProtoError, OverflowError, TypeError, ValueError) as failure:
            raise ProtoError(
                f"{value!r} is no value of {message}.{name}", why=str(failure)
            ) from failure
    return b"".join(out)


@cache
def _ordered(message: str, names: tuple[str, ...]) -> tuple[tuple[_Slot, str], ...]:
    """Fields in order of their numbers; writers name theirs in few ways."""
    slots = _slots(message)
    return tuple(sorted([(slots[name], name) for name in names], key=_number))


def _number(entry: tuple[_Slot, str]) -> int:
    return entry[0].number


@cache
def _slots(message: str) -> dict[str, _Slot]:
    return {name: _slot(spec) for name, spec in MESSAGES[message].fields.items()}


def _slot(spec: Field) -> _Slot:
    packed = spec.repeated and spec.kind not in _SIZED
    return _Slot(
        spec.number,
        wire.varint(spec.packed_tag if packed else spec.tag),
        _write_of(spec),
        _PAYLOADS[spec.kind],
        keeps_zero := spec.presence or spec.kind is FieldKind.MESSAGE,
        not keeps_zero and spec.kind is not FieldKind.ENUM,
        ENUM_TYPES[spec.type_name].numbers if spec.kind is FieldKind.ENUM else None,
    )


def _write_of(spec: Field) -> Callable[[list[bytes], _Slot, Any], None]:
    if spec.raw:
        return _append_raw
    if not spec.repeated:
        return _append_one
    return _append_each if spec.kind in _SIZED else _append_packed


def _append_one(out: list[bytes], slot: _Slot, value: Any) -> None:
    if slot.enum is not None:
        value = _enum_number(slot.enum, value)
    if not value and not slot.keeps_zero and _is_zero(value):
        return
    out.append(slot.tag)
    out.append(slot.payload(value))


def _is_zero(value: Any) -> bool:
    """True for values whose bits are all zero: -0.0 is not, and must be written."""
    return not isinstance(value, float) or wire.double_bytes(value) == bytes(8)


def _append_each(out: list[bytes], slot: _Slot, value: Sequence[Any]) -> None:
    for item in value:
        out.append(slot.tag)
        out.append(slot.payload(item))


def _append_packed(out: list[bytes], slot: _Slot, value: Sequence[Any]) -> None:
    if not value:
        return
    enum = slot.enum
    numbers = value if enum is None else [_enum_number(enum, v) for v in value]
    out.append(slot.tag)
    out.append(_sized(b"".join([slot.payload(n) for n in numbers])))


def _append_raw(out: list[bytes], slot: _Slot, value: bytes) -> None:
    if value:
        out.append(slot.tag)
        out.append(_sized(value))


def _enum_number(numbers: Mapping[str, int], value: str) -> int:
    found = numbers.get(value)
    if found is None:
        raise ProtoError(f"the enum has no value {value}; it has {', '.join(numbers)}")
    return found
