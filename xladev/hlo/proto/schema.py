"""Message descriptors: which fields a message has, and how each one is laid out on the wire.

Descriptors are built once, from the tables in `hlo_messages.py`, `data_messages.py` and `enums.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from xladev.hlo.proto.data_messages import DATA_MESSAGES
from xladev.hlo.proto.enums import ENUMS
from xladev.hlo.proto.hlo_messages import HLO_MESSAGES

INFORMATIVE: Final = frozenset(
    {"OpMetadata", "Payload", "StatisticsViz", "Statistic", "HloModuleProto", "HloProto"}
    | {m for m in HLO_MESSAGES if m.startswith(("StackFrameIndex", "Debug", "X64", "Original"))}
)
"""Messages whose unknown fields cannot change what a program computes, and so are dropped."""


class WireType(Enum):
    """How a value's length is told on the wire (protobuf encoding guide, "Message Structure")."""

    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5


class FieldKind(Enum):
    """Type of a field's values; the value is its spelling in the tables."""

    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    ENUM = "enum"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    MESSAGE = "message"


WIRE_TYPES: Final[Mapping[FieldKind, WireType]] = MappingProxyType(
    dict.fromkeys(FieldKind, WireType.VARINT)
    | {FieldKind.FLOAT: WireType.FIXED32, FieldKind.DOUBLE: WireType.FIXED64}
    | dict.fromkeys((FieldKind.STRING, FieldKind.BYTES, FieldKind.MESSAGE), WireType.LENGTH)
)
_SCALAR_KINDS: Final = {
    k.value: k for k in FieldKind if k not in (FieldKind.ENUM, FieldKind.MESSAGE)
}


@dataclass(frozen=True, slots=True)
class EnumType:
    """One enumeration: names by number and numbers by name."""

    name: str
    names: Mapping[int, str]
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        number: field number.
        name: name in the .proto file.
        kind: type of its values.
        repeated: True for lists.
        presence: True if a zero is told apart from "not set" (oneof and optional fields).
        raw: True if the decoder keeps the bytes, packed where it is a list, to be read as an array.
        lazy: True if the decoder keeps a message's bytes, for the reader to decode each value once.
        type_name: message or enum named by the field; empty for scalars.
    """

    number: int
    name: str
    kind: FieldKind
    repeated: bool = False
    presence: bool = False
    raw: bool = False
    lazy: bool = False
    type_name: str = ""

    @property
    def wire_type(self) -> WireType:
        """Wire type of one value, not packed."""
        return WIRE_TYPES[self.kind]

    @property
    def tag(self) -> int:
        """Number and wire type of one value, as written before it."""
        return self.number << 3 | self.wire_type.value

    @property
    def packed_tag(self) -> int:
        """Tag of a packed list of values."""
        return self.number << 3 | WireType.LENGTH.value


@dataclass(frozen=True, slots=True, eq=False)
class Descriptor:
    """The fields of one message.

    Attributes:
        name: name in the .proto file, nested messages dotted.
        fields: fields by name.
        by_tag: field by tag, as met on the wire; packed lists by both of their tags.
        ignored: field numbers that are skipped knowingly.
        strict: True if a field not known here makes the message's meaning unknown.
    """

    name: str
    fields: Mapping[str, Field]
    by_tag: Mapping[int, Field]
    ignored: frozenset[int] = frozenset()
    strict: bool = field(default=True)


def parse_message(name: str, table: str) -> Descriptor:
    """The descriptor written as ``table``.

    Each line is ``NUMBER NAME TYPE``, or ``ignored NUMBER...``. TYPE is a scalar kind, an enum or a
    message; ``*`` marks lists, ``?`` fields with presence, ``raw-`` lists and bytes for arrays,
    ``lazy-`` messages kept as bytes.
    """
    rows = [line.split() for line in table.splitlines() if line.strip()]
    fields = [_parse_field(row) for row in rows if row[0] != "ignored"]
    ignored = frozenset(int(n) for row in rows if row[0] == "ignored" for n in row[1:])
    by_tag = {f.tag: f for f in fields}
    by_tag.update({f.packed_tag: f for f in fields if f.repeated})
    return Descriptor(
        name, {f.name: f for f in fields}, by_tag, ignored, strict=name not in INFORMATIVE
    )


def _parse_field(row: list[str]) -> Field:
    number, name, spelled = row
    type_name = spelled.rpartition("-")[2].rstrip("*?")
    kind = _SCALAR_KINDS.get(type_name) or (
        FieldKind.ENUM if type_name in ENUMS else FieldKind.MESSAGE
    )
    return Field(
        int(number),
        name,
        kind,
        repeated=spelled.endswith("*"),
        presence=spelled.endswith("?"),
        raw=spelled.startswith("raw-"),
        lazy=spelled.startswith("lazy-"),
        type_name="" if type_name in _SCALAR_KINDS else type_name,
    )


def _parse_enum(name: str, table: str) -> EnumType:
    pairs = [entry.split("=") for entry in table.split()]
    names = {int(number): value for value, number in pairs}
    return EnumType(name, names, {value: number for number, value in names.items()})


MESSAGES: Final[Mapping[str, Descriptor]] = MappingProxyType(
    {name: parse_message(name, table) for name, table in (HLO_MESSAGES | DATA_MESSAGES).items()}
)
"""Every message reachable from HloProto, by name."""

ENUM_TYPES: Final[Mapping[str, EnumType]] = MappingProxyType(
    {name: _parse_enum(name, table) for name, table in ENUMS.items()}
)
"""Every enumeration those messages name."""
