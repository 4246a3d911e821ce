"""Bytes of a serialized message to `Message`: iterative, in time and memory linear in the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from xladev.errors import ProtoError
from xladev.hlo.proto import wire
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schema import MESSAGES, Descriptor, Field, FieldKind, WireType

MAX_DEPTH: Final = 100
"""Deepest nesting of messages, as protobuf's own parsers have it."""

_SHARED: Final = "ShapeProto"
"""Messages of which equal ones in one list are decoded once: a tuple repeats few shapes often."""
_LONGEST_SHARED: Final = 256

_LONGEST_COPIED: Final = 1 << 16
"""Bytes of raw fields that are copied; of longer ones the whole data is kept instead."""

_Read = Callable[[bytes, int], tuple[Any, int]]
_READERS: Final[Mapping[FieldKind, _Read]] = MappingProxyType(
    {
        FieldKind.INT32: wire.read_int32,
        FieldKind.INT64: wire.read_int64,
        FieldKind.UINT32: wire.read_uint32,
        FieldKind.UINT64: wire.read_uint64,
        FieldKind.BOOL: wire.read_bool,
        FieldKind.ENUM: wire.read_int32,
        FieldKind.FLOAT: wire.read_float,
        FieldKind.DOUBLE: wire.read_double,
    }
)


class _Form(Enum):
    """What follows a tag."""

    SCALAR = auto()
    PACKED = auto()
    TEXT = auto()
    BYTES = auto()
    MESSAGE = auto()


class _Slot(NamedTuple):
    """How to read the value after one tag."""

    name: str
    form: _Form
    repeated: bool
    raw: bool
    read: _Read
    child: str


_LENGTH_FORMS: Final[Mapping[FieldKind, _Form]] = MappingProxyType(
    {FieldKind.STRING: _Form.TEXT, FieldKind.BYTES: _Form.BYTES, FieldKind.MESSAGE: _Form.MESSAGE}
)


def _no_read(data: bytes, pos: int) -> tuple[Any, int]:
    """Stands in slots whose value is told by a length."""
    return data[pos:pos], pos


def _slot(tag: int, spec: Field) -> _Slot:
    form = _LENGTH_FORMS.get(spec.kind, _Form.SCALAR if tag == spec.tag else _Form.PACKED)
    if spec.lazy:
        form = _Form.BYTES
    read = _READERS.get(spec.kind, _no_read)
    return _Slot(spec.name, form, spec.repeated, spec.raw, read, spec.type_name)


@cache
def _slots(name: str) -> dict[int, _Slot]:
    return {tag: _slot(tag, spec) for tag, spec in MESSAGES[name].by_tag.items()}


class _Frame(NamedTuple):
    """A message whose decoding waits for that of one of its parts."""

    message: Message
    end: int
    field: str


def decode(data: bytes, descriptor: Descriptor) -> Message:
    """The message in ``data``.

    Raises:
        ProtoError: truncated or malformed bytes, text that is not UTF-8, nesting beyond MAX_DEPTH;
            names the byte and the path of the message.
    """
    stack: list[_Frame] = []
    decoder = _Decoder(data, Message(descriptor), stack)
    try:
        return decoder.run()
    except (IndexError, struct.error):
        raise decoder.error("the message ends within a value") from None
    except UnicodeDecodeError:
        raise decoder.error("a string is not valid UTF-8") from None
    except ProtoError as failure:
        raise decoder.error(failure.what) from None


class _Decoder:
    """State of one decoding: the message at hand, and those around it."""

    def __init__(self, data: bytes, root: Message, stack: list[_Frame]) -> None:
        self.data = data
        self.message = root
        self.stack = stack
        self.at = 0
        self.shared: dict[tuple[int, bytes], Message] = {}
        self.entering: tuple[int, bytes] | None = None

    def run(self) -> Message:
        """Decodes everything. One loop, for speed: it runs once for each field on the wire."""
        data, pos, end = self.data, 0, len(self.data)
        slots, values = _slots(self.message.descriptor.name), self.message.values
        while True:
            if pos >= end:
                if pos > end:
                    raise ProtoError("a value runs past the end of its message")
                if not self.stack:
                    return self.message
                self.message, end, _ = self.stack.pop()
                slots, values = _slots(self.message.descriptor.name), self.message.values
                continue
            self.at = pos
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = wire.read_uint64(data, pos - 1)
            slot = slots.get(tag)
            if slot is None:
                pos = self._skip(tag, pos)
                continue
            name, form, repeated, raw, read, child = slot
            if form is _Form.SCALAR:
                value, stop = read(data, pos)
                if raw:
                    value = data[pos:stop]
                if repeated:
                    values.setdefault(name, []).append(value)
                else:
                    values[name] = value
                pos = stop
                continue
            length, pos = wire.read_uint64(data, pos)
            stop = pos + length
            if stop > end:
                raise ProtoError(f"a value of {length} bytes runs past the end of its message")
            if form is _Form.MESSAGE:
                if repeated and child == _SHARED and self._share(name, pos, stop):
                    pos = stop
                    continue
                end = self._enter(name, repeated, MESSAGES[child], pos, stop, end)
                slots, values = _slots(child), self.message.values
                continue
            if form is _Form.PACKED:
                chunk = [_span(data, pos, stop)] if raw else _unpack(data, pos, stop, read)
                values.setdefault(name, []).extend(chunk)
            else:
                value = _span(data, pos, stop) if raw else data[pos:stop]
                if form is _Form.TEXT:
                    value = str(value, "utf-8")
                if repeated:
                    values.setdefault(name, []).append(value)
                else:
                    values[name] = value
            pos = stop

    def _enter(
        self, name: str, repeated: bool, child: Descriptor, pos: int, stop: int, end: int
    ) -> int:
        """Makes the part at ``pos`` the message at hand; returns its end."""
        if len(self.stack) >= MAX_DEPTH:
            raise ProtoError(f"messages are nested more than {MAX_DEPTH} deep")
        values = self.message.values
        self.stack.append(_Frame(self.message, end, name))
        found = None if repeated else values.get(name)
        if found is None:
            found = Message(child, pos)
            if repeated:
                values.setdefault(name, []).append(found)
            else:
                values[name] = found
            if self.entering is not None:
                self.shared[self.entering] = found
                self.entering = None
        self.message = found
        return stop

    def _share(self, name: str, pos: int, stop: int) -> bool:
        """Takes the message of the same bytes that was decoded before, if there is one.

        It was decoded at the same depth, so that nothing nests deeper than it may. Where there is
        none, the message that the caller enters next will be known.
        """
        if stop - pos > _LONGEST_SHARED:
            return False
        key = len(self.stack), self.data[pos:stop]
        found = self.shared.get(key)
        if found is None:
            self.entering = key
            return False
        self.message.values.setdefault(name, []).append(found)
        return True

    def _skip(self, tag: int, pos: int) -> int:
        """Position after an unknown field's value; an error where it could change the meaning."""
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ProtoError(f"field number {number} is not valid")
        descriptor = self.message.descriptor
        if descriptor.strict and number not in descriptor.ignored:
            raise ProtoError(f"{descriptor.name} has an unknown field, number {number}")
        if wire_type == WireType.VARINT.value:
            return wire.read_uint64(self.data, pos)[1]
        if wire_type == WireType.FIXED64.value:
            return pos + 8
        if wire_type == WireType.FIXED32.value:
            return pos + 4
        if wire_type != WireType.LENGTH.value:
            raise ProtoError(f"wire type {wire_type} of field {number} is not used by proto3")
        length, pos = wire.read_uint64(self.data, pos)
        return pos + length

    def error(self, what: str) -> ProtoError:
        """An error at the field being read, with the path of its message."""
        return ProtoError(
            what,
            where=f"byte {self.at} of {len(self.data)}, in {self._path()}",
            hint="the file is damaged, cut short, newer than this reader, or no HloModuleProto",
        )

    def _path(self) -> str:
        parts = [self.stack[0].message.descriptor.name] if self.stack else []
        parts.extend(_step(frame) for frame in self.stack)
        return ".".join(parts) if parts else self.message.descriptor.name


def _step(frame: _Frame) -> str:
    """One step of a path, such as ``instructions[3]``, with the name of the part where known."""
    found = frame.message.values[frame.field]
    if not isinstance(found, list):
        return frame.field
    part: Message = found[-1]
    name = part.values.get("name")
    return f"{frame.field}[{len(found) - 1}]" + (f" ({name})" if name else "")


def _span(data: bytes, pos: int, stop: int) -> bytes | memoryview:
    """Bytes of the data; many are a view of it, at whatever address they are."""
    return data[pos:stop] if stop - pos <= _LONGEST_COPIED else memoryview(data)[pos:stop]


def _unpack(data: bytes, pos: int, stop: int, read: _Read) -> list[Any]:
    """The values packed in one stretch of bytes."""
    values: list[Any] = []
    while pos < stop:
        value, pos = read(data, pos)
        values.append(value)
    if pos > stop:
        raise ProtoError("a packed value runs past the end of its list")
    return values
