"""Shardings of arguments and results, as PJRT clients are told: OpSharding messages."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.proto.shardings import write_sharding
from xladev.hlo.proto.wire import varint
from xladev.passes.local_interface import LocalInterface

_TUPLE = b"\x08\x02"
"""The field type of an OpSharding: that of a tuple."""

_REPLICATED = b""
"""An OpSharding without fields."""


@dataclass(frozen=True, slots=True)
class Shardings:
    """Serialized OpShardings of a program of several partitions.

    Attributes:
        parameters: one for each argument.
        results: one for each result.
    """

    parameters: tuple[bytes, ...]
    results: tuple[bytes, ...]

    def output(self, is_tuple: bool) -> bytes:
        """That of the whole result; of an empty tuple it has one element all the same."""
        if not is_tuple:
            return self.results[0]
        parts = self.results or (_REPLICATED,)
        return _TUPLE + b"".join(b"\x2a" + varint(len(part)) + part for part in parts)


def shardings_of(local: LocalInterface) -> Shardings | None:
    """What clients are told; None if it is not known how something is laid out."""
    if not (local.parameters or local.results):
        return None
    parameters = tuple(write_sharding(p.sharding) for p in local.parameters)
    return Shardings(parameters, tuple(write_sharding(r.sharding) for r in local.results))
