"""Values by field name to the bytes of a message, parts first.

A message is written after its parts, which are given as bytes: encoding never nests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from xladev.errors import ProtoError
from xladev.hlo.proto import wire
from xladev.hlo.proto.schema import ENUM_TYPES, MESSAGES, Field, Kind

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


_PAYLOADS: Final[Mapping[Kind, Callable[[Any], bytes]]] = MappingProxyType(
    dict.fromkeys(Kind, _int)
    | {
        Kind.FLOAT: wire.float_bytes,
        Kind.DOUBLE: wire.double_bytes,
        Kind.STRING: _text,
        Kind.BYTES: _sized,
        Kind.MESSAGE: _sized,
    }
)
_SIZED: Final = frozenset({Kind.STRING, Kind.BYTES, Kind.MESSAGE})


def encode(message: str, values: Values) -> bytes:
    """The bytes of the named message, fields in order of their numbers.

    Fields at their proto3 default are left out, except those with presence and messages (an empty
    message is written where its bytes are empty, and left out where None). Enums are given by name.

    Raises:
        ProtoError: a number that does not fit its field, or an unknown name of an enum's value.
    """
    fields = MESSAGES[message].fields
    out: list[bytes] = []
    for spec in sorted((fields[name] for name in values), key=_number):
        value = values[spec.name]
        if value is None:
            continue
        try:
            _append(out, spec, value)
        except (ProtoError, OverflowError, TypeError) as failure:
            raise ProtoError(
                f"{value!r} is no value of {message}.{spec.name}", why=str(failure)
            ) from failure
    return b"".join(out)


def _number(spec: Field) -> int:
    return spec.number


@cache
def _tag(number: int) -> bytes:
    return wire.varint(number)


def _append(out: list[bytes], spec: Field, value: Any) -> None:
    if spec.raw:
        _append_raw(out, spec, value)
    elif spec.repeated:
        _append_list(out, spec, value)
    else:
        _append_one(out, spec, value)


def _append_one(out: list[bytes], spec: Field, value: Any) -> None:
    if spec.kind is Kind.ENUM:
        value = _enum_number(spec, value)
    if not value and not spec.presence and spec.kind is not Kind.MESSAGE and _is_zero(value):
        return
    out.append(_tag(spec.tag))
    out.append(_PAYLOADS[spec.kind](value))


def _is_zero(value: Any) -> bool:
    """True for values whose bits are all zero: -0.0 is not, and must be written."""
    return not isinstance(value, float) or wire.double_bytes(value) == bytes(8)


def _append_list(out: list[bytes], spec: Field, value: Sequence[Any]) -> None:
    payload = _PAYLOADS[spec.kind]
    if spec.kind in _SIZED:
        tag = _tag(spec.tag)
        for item in value:
            out.append(tag)
            out.append(payload(item))
        return
    if not value:
        return
    numbers = [_enum_number(spec, v) for v in value] if spec.kind is Kind.ENUM else value
    out.append(_tag(spec.packed_tag))
    out.append(_sized(b"".join([payload(n) for n in numbers])))


def _append_raw(out: list[bytes], spec: Field, value: bytes) -> None:
    if value:
        out.append(_tag(spec.packed_tag))
        out.append(_sized(value))


def _enum_number(spec: Field, value: str) -> int:
    enum = ENUM_TYPES[spec.type_name]
    found = enum.numbers.get(value)
    if found is None:
        raise ProtoError(f"{enum.name} has no value {value}")
    return found
