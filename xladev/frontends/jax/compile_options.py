"""CompileOptionsProto: what a PJRT client says about how to compile.

Source: the messages CompileOptionsProto and ExecutableBuildOptionsProto of XLA's
`xla/pjrt/proto/compile_options.proto`, and DeviceAssignmentProto of `xla/xla_data.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from xladev.errors import ProtoError
from xladev.hlo.proto.wire import read_uint64, varint

Fields = Iterator[tuple[int, int | bytes]]
Override = str | bool | int | float

_BUILD_OPTIONS, _PORTABLE, _OVERRIDES = 3, 4, 7
_NAME, _VALUE = 1, 2
_STRING, _BOOL, _INT, _DOUBLE = 1, 2, 3, 4
_REPLICAS, _PARTITIONS, _ASSIGNMENT = 4, 5, 9
_PROPAGATE_TO_OUTPUT, _PROPAGATE_TO_PARAMETERS = 12, 18
_COMPUTATION_DEVICES, _DEVICE_IDS = 3, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class JaxOptions:
    """The part that xladev heeds.

    Attributes:
        num_replicas: as in `CompileOptions`.
        num_partitions: as in `CompileOptions`.
        devices: ids of devices, one row per replica, one column per partition; empty: the first.
        overrides: names and values of ``compiler_options``, as the program gave them.
        propagate_to_parameters: for each parameter, may its sharding be chosen; one is for all.
        propagate_to_output: for each result, likewise.
        is_portable: the client names the device at each execution, not here.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    devices: tuple[tuple[int, ...], ...] = ()
    overrides: tuple[tuple[str, Override], ...] = ()
    propagate_to_parameters: tuple[bool, ...] = ()
    propagate_to_output: tuple[bool, ...] = ()
    is_portable: bool = False


ALONE = JaxOptions()
"""One replica of one partition, on the first device."""


def read_options(data: bytes) -> JaxOptions:
    """The options in a serialized CompileOptionsProto.

    Raises:
        ProtoError: the bytes are damaged.
    """
    try:
        return _read(data)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise ProtoError(
            "damaged compile options", why="the message ends within a field, or a text is none"
        ) from error


def _read(data: bytes) -> JaxOptions:
    overrides = tuple(_override(value) for field, value in _fields(data) if field == _OVERRIDES)
    read = _read_build(_last(data, _BUILD_OPTIONS))
    is_alone = read.num_replicas == read.num_partitions == 1
    is_portable = is_alone and bool(_last(data, _PORTABLE))
    return replace(read, overrides=overrides, is_portable=is_portable)


def _override(message: int | bytes) -> tuple[str, Override]:
    """An entry of the map; its value is one field of four."""
    entry = _last(message, _NAME), _last(message, _VALUE)
    name, value = (part if isinstance(part, bytes) else b"" for part in entry)
    for field, given in _fields(value):
        if field == _STRING and isinstance(given, bytes):
            return name.decode(), given.decode()
        if field in (_BOOL, _INT) and isinstance(given, int):
            return name.decode(), bool(given) if field == _BOOL else _signed(given)
        if field == _DOUBLE and isinstance(given, bytes):
            return name.decode(), float(struct.unpack("<d", given)[0])
    return name.decode(), ""


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _read_build(build: int | bytes | None) -> JaxOptions:
    if not isinstance(build, bytes):
        return JaxOptions()
    replicas = _last(build, _REPLICAS) or 1
    partitions = _last(build, _PARTITIONS) or 1
    assignment = _last(build, _ASSIGNMENT)
    if not isinstance(replicas, int) or not isinstance(partitions, int):
        raise ProtoError("damaged compile options", why="a count is no number")
    found = JaxOptions(
        replicas,
        partitions,
        propagate_to_parameters=_flags(build, _PROPAGATE_TO_PARAMETERS),
        propagate_to_output=_flags(build, _PROPAGATE_TO_OUTPUT),
    )
    if not isinstance(assignment, bytes):
        return found
    columns = [_device_ids(v) for f, v in _fields(assignment) if f == _COMPUTATION_DEVICES]
    if len(columns) != partitions or any(len(column) != replicas for column in columns):
        raise ProtoError("damaged compile options", why="the device assignment lacks devices")
    return replace(found, devices=tuple(zip(*columns, strict=True)))


def _flags(build: bytes, wanted: int) -> tuple[bool, ...]:
    """A repeated flag, packed or not."""
    found = (value for field, value in _fields(build) if field == wanted)
    return tuple(
        bool(flag) for value in found for flag in ([value] if isinstance(value, int) else value)
    )


def write_device_assignment(devices: tuple[tuple[int, ...], ...]) -> bytes:
    """A serialized DeviceAssignmentProto; ``devices`` as in `JaxOptions`."""
    columns = list(zip(*devices, strict=True))
    parts = [b"\x08" + varint(len(devices)), b"\x10" + varint(len(columns))]
    for column in columns:
        ids = b"".join(b"\x08" + varint(i) for i in column)
        parts.append(b"\x1a" + varint(len(ids)) + ids)
    return b"".join(parts)


def _device_ids(message: int | bytes) -> tuple[int, ...]:
    if not isinstance(message, bytes):
        raise ProtoError("damaged compile options", why="a device list is no message")
    found: list[int] = []
    for field, value in _fields(message):
        if field != _DEVICE_IDS:
            continue
        found.extend([value] if isinstance(value, int) else _packed(value))
    return tuple(found)


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = read_uint64(data, at)
        yield value


def _last(data: int | bytes, wanted: int) -> int | bytes | None:
    if isinstance(data, int):
        raise ProtoError("damaged compile options", why="a message is a number")
    values = [value for field, value in _fields(data) if field == wanted]
    return values[-1] if values else None


def _fields(data: bytes) -> Fields:
    """Number and value of each field: a varint, or the bytes of anything else."""
    at = 0
    while at < len(data):
        tag, at = read_uint64(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = read_uint64(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = read_uint64(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ProtoError("damaged compile options", why=f"wire type {kind} does not exist")
        if at + length > len(data):
            raise _cut()
        yield tag >> 3, data[at : at + length]
        at += length


def _cut() -> ProtoError:
    return ProtoError("damaged compile options", why="the message ends within a field")
