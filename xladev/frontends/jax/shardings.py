"""Shardings of arguments and results, as PJRT clients are told: OpSharding messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xladev.hlo.proto.shardings import write_sharding
from xladev.hlo.proto.wire import varint
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.tiles import to_tiles
from xladev.passes.spmd.program import PartitionedProgram

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


def shardings_of(program: PartitionedProgram) -> Shardings:
    """What clients are told of a partitioned program; tokens are replicated."""
    entry = program.module.entry
    shapes = [leaf for p in entry.parameters for leaf in flattened_shapes(p.shape)]
    return Shardings(
        tuple(_told(shapes, program.parameters)),
        tuple(_told(flattened_shapes(entry.root.shape), program.results)),
    )


def _told(shapes: Sequence[Shape], cuts: Sequence[AxisSharding]) -> Iterator[bytes]:
    """One for each value of some shapes, of which the arrays are cut so."""
    rest = iter(cuts)
    for shape in shapes:
        yield write_sharding(to_tiles(next(rest))) if shape.is_array else _REPLICATED
