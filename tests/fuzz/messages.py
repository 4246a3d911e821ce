"""Changes serialized modules field by field: well-formed protos that mean something else.

The tree is that of the reader's own decoder; what is written back follows the same tables.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fuzz.strange import FLOATS, TEXTS, WORDS, strange_integer
from xladev.hlo.proto import wire
from xladev.hlo.proto.decode import decode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schema import ENUM_TYPES, MESSAGES, Field, FieldKind
from xladev.hlo.proto.wrapping import unwrap

_BITS64 = (1 << 64) - 1


def tree(data: bytes, name: str = "HloModuleProto") -> Message:
    """The message in `data`, with those parts decoded too that the reader decodes late."""
    message = decode(unwrap(data) if name == "HloModuleProto" else data, MESSAGES[name])
    for holder in _messages(message):
        for spec in holder.descriptor.fields.values():
            if spec.lazy and spec.name in holder.values:
                holder.values[spec.name] = tree(holder.values[spec.name], spec.type_name)
    return message


def _messages(root: Message) -> Iterator[Message]:
    """The message and all in it, outermost first."""
    stack = [root]
    while stack:
        message = stack.pop()
        yield message
        for value in message.values.values():
            stack += [v for v in (value if isinstance(value, list) else [value])
                      if isinstance(v, Message)]  # fmt: skip


def written(message: Message) -> bytes:
    """The bytes of a message, whatever its values are."""
    out = bytearray()
    for name, value in message.values.items():
        spec = message.descriptor.fields[name]
        if spec.raw:
            value = [b"".join(value)]
        for item in value if isinstance(value, list) else [value]:
            data = _payload(spec, item)
            sized = isinstance(item, (bytes, str, Message))
            out += wire.varint(spec.packed_tag if spec.raw else spec.tag)
            out += (wire.varint(len(data)) if sized else b"") + data
    return bytes(out)


def _payload(spec: Field, value: Any) -> bytes:
    if isinstance(value, Message):
        return written(value)
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bytes):
        return value
    if spec.kind is FieldKind.FLOAT:
        return wire.float_bytes(value)
    if spec.kind is FieldKind.DOUBLE:
        return wire.double_bytes(value)
    return wire.varint(int(value) & _BITS64)


@dataclass(frozen=True)
class _Site:
    """One field of one message in the tree."""

    message: Message
    spec: Field

    @property
    def value(self) -> Any:
        return self.message.values[self.spec.name]

    def put(self, value: Any) -> None:
        self.message.values[self.spec.name] = value


def _sites(root: Message) -> list[_Site]:
    """Fields that are set, except those that say nothing about meaning."""
    skipped = ("OpMetadata", "StackFrameIndexProto", "OriginalValueProto")
    return [
        _Site(message, message.descriptor.fields[name])
        for message in _messages(root)
        if not message.descriptor.name.startswith(skipped)
        for name in message.values
        if name != "metadata"
    ]


def changed_message(data: bytes, draw: random.Random) -> bytes:
    """The serialized module with one to three fields changed."""
    root = tree(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        sites = _sites(root)
        if draw.random() < 0.1:
            _set_absent(draw.choice(sites).message, draw)
        else:
            _change(draw.choice(sites), sites, draw)
    return written(root)


def _change(site: _Site, sites: list[_Site], draw: random.Random) -> None:
    what = draw.random()
    if what < 0.1:
        del site.message.values[site.spec.name]
    elif what < 0.3:
        site.put(_copied(draw.choice([s.value for s in sites if s.spec is site.spec])))
    elif isinstance(site.value, list) and not site.spec.raw:
        site.put(_changed_list(site.value, site.spec, draw))
    else:
        site.put(_changed(site.value, site.spec, draw))


def _copied(value: Any) -> Any:
    """The value with messages of its own: one may be put inside itself."""
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return tree(written(value), value.descriptor.name) if isinstance(value, Message) else value


def _changed_list(values: list[Any], spec: Field, draw: random.Random) -> list[Any]:
    made = list(values)
    if not made:
        return made
    at, other = draw.randrange(len(made)), draw.randrange(len(made))
    what = draw.randrange(6)
    if what == 0:
        del made[at]
    elif what == 1:
        made.insert(at, _copied(made[other]))
    elif what == 2:
        made[at], made[other] = made[other], made[at]
    else:
        made[at] = _changed(made[at], spec, draw)
    return made


def _changed(value: Any, spec: Field, draw: random.Random) -> Any:
    if isinstance(value, Message):
        _set_absent(value, draw)
        return value
    if spec.raw:
        data = bytearray(b"".join(value))
        return [bytes(data[: draw.randrange(len(data) + 1)])]
    if isinstance(value, str):
        return draw.choice(WORDS + TEXTS)
    if isinstance(value, bytes):
        return value[: draw.randrange(len(value) + 1)]
    if isinstance(value, float):
        return draw.choice(FLOATS)
    if spec.kind is FieldKind.ENUM:
        return draw.choice((*ENUM_TYPES[spec.type_name].names, 99, -1))
    return strange_integer(int(value), draw)


def _set_absent(message: Message, draw: random.Random) -> None:
    """Sets a field that is not set, to a number or an empty message."""
    absent = [f for n, f in message.descriptor.fields.items() if n not in message.values]
    if not absent:
        return
    spec = draw.choice(absent)
    value: Any = strange_integer(1, draw)
    if spec.kind is FieldKind.MESSAGE:
        value = Message(MESSAGES[spec.type_name])
    elif spec.kind is FieldKind.STRING:
        value = draw.choice(TEXTS)
    elif spec.kind is FieldKind.BYTES or spec.raw:
        value = b"\x01\x02\x03\x04"
    elif spec.kind in (FieldKind.FLOAT, FieldKind.DOUBLE):
        value = draw.choice(FLOATS)
    message.values[spec.name] = [value] if spec.repeated else value
