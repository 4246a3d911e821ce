"""PJRT's numbers of element types, and HLO's types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

TOKEN_NUMBER = 23

_NAMES = (
    "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16",
    "c64", "c128", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s4", "u4",
    "token", "s2", "u2", "f8e4m3", "f8e3m4", "f8e8m0fnu", "f4e2m1fn",
)  # fmt: skip

TYPE_OF: Mapping[int, PrimitiveType] = MappingProxyType(
    {number: dt.by_name(name) for number, name in enumerate(_NAMES, start=1) if name != "token"}
)
"""The HLO type of each number of `PJRT_Buffer_Type`."""

_NUMBER_OF = {primitive: number for number, primitive in TYPE_OF.items()}


def type_of(number: int) -> PrimitiveType:
    """The HLO type that a PJRT number means.

    Raises:
        UnsupportedError: there is none.
    """
    found = TYPE_OF.get(number)
    if found is None:
        raise UnsupportedError(f"PJRT element type {number} is no type of arrays")
    return found


def number_of(primitive: PrimitiveType) -> int:
    """PJRT's number of an HLO type.

    Raises:
        UnsupportedError: PJRT has none.
    """
    if primitive is dt.TOKEN:
        return TOKEN_NUMBER
    number = _NUMBER_OF.get(primitive)
    if number is None:
        raise UnsupportedError(
            f"PJRT has no element type {primitive.name}",
            hint="convert the value to another type within the program",
        )
    return number
