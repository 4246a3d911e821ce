"""Dotted paths to fields of ``HloInstructionProto``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schema import MESSAGES, Field

_ROOT = "HloInstructionProto"


@dataclass(frozen=True, slots=True)
class Path:
    """A field, and the message fields on the way to it."""

    dotted: str
    parents: tuple[str, ...]
    field: Field

    def holder(self, message: Message) -> Message | None:
        """The message that has the field; None where one on the way is not set."""
        found: Message | None = message
        for parent in self.parents:
            if found is None:
                return None
            found = found.child(parent)
        return found


@cache
def path_of(dotted: str) -> Path:
    """The path written ``dotted``; a KeyError if the schema has no such field."""
    *parents, last = dotted.split(".")
    descriptor = MESSAGES[_ROOT]
    for parent in parents:
        descriptor = MESSAGES[descriptor.fields[parent].type_name]
    return Path(dotted, tuple(parents), descriptor.fields[last])


def encode_nested(fields: Mapping[str, Any], message: str = _ROOT) -> bytes:
    """A message from fields by dotted name: those with a common parent form one part."""
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for dotted, value in fields.items():
        head, dot, rest = dotted.partition(".")
        if dot:
            parts.setdefault(head, {})[rest] = value
        else:
            own[head] = value
    for head, inner in parts.items():
        own[head] = encode_nested(inner, MESSAGES[message].fields[head].type_name)
    return encode(message, own)
