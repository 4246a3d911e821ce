"""Collectives between the devices of a driver, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

BYTES = "u8"
"""The type of what is moved and not computed with."""
SUMS: Mapping[str, int] = MappingProxyType(
    {
        "s8": 0, "u8": 1, "s32": 2, "u32": 3, "s64": 4, "u64": 5, "f16": 6, "f32": 7, "f64": 8,
        "bf16": 9,
    }
)  # fmt: skip
"""ncclDataType_t by element type."""
OPERATIONS: Mapping[str, int] = MappingProxyType(
    {"add": 0, "multiply": 1, "maximum": 2, "minimum": 3}
)
"""ncclRedOp_t by HLO's opcode."""


@dataclass(frozen=True, slots=True)
class LibraryCollective:
    """What all ranks do together.

    Attributes:
        opcode: HLO's, of those in `COLLECTIVES`.
        dtype: of the elements; `BYTES` where they are only moved.
        count: elements that one rank sends to one other: all of its operand, or its n-th part for
            ``reduce-scatter`` and ``all-to-all``.
        operation: of a reduction.
        root: of ``collective-reduce`` and ``collective-broadcast``.
        pairs: (source, target) of ``collective-permute``; other targets get zeros.
    """

    opcode: str
    dtype: str
    count: int
    operation: str = "add"
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
