"""Source metadata <-> ``OpMetadata``."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from xladev.hlo.attributes import NO_METADATA, Metadata
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message

_FIELDS: Final = frozenset(field.name for field in fields(Metadata))
"""Fields of `Metadata`, which are named as in the proto."""


def read_metadata(message: Message) -> Metadata:
    """The metadata in an ``OpMetadata``; payloads of compilers are dropped."""
    values = message.values
    if not values:
        return NO_METADATA
    known = {name: value for name, value in values.items() if name in _FIELDS}
    if "profile_type" in known:
        known["profile_type"] = tuple(known["profile_type"])
    return Metadata(**known)


def write_metadata(metadata: Metadata) -> bytes:
    """The ``OpMetadata`` of metadata."""
    return encode("OpMetadata", {name: getattr(metadata, name) for name in _FIELDS})
