"""The 36 primitive types of HLO: name, proto number, width, kind and NumPy counterpart.

Numbers and widths follow `xla/xla_data.proto`. Sub-byte elements occupy one byte each in host
arrays (as in ml_dtypes) and are packed only by layouts that say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from xladev.errors import ShapeError


class Kind(Enum):
    """What family of values a primitive type holds."""

    PRED = "pred"
    SINT = "sint"
    UINT = "uint"
    FLOAT = "float"
    COMPLEX = "complex"
    TUPLE = "tuple"
    OPAQUE = "opaque"
    TOKEN = "token"
    BUFFER = "buffer"


_ARRAY_KINDS = frozenset({Kind.PRED, Kind.SINT, Kind.UINT, Kind.FLOAT, Kind.COMPLEX})


@dataclass(frozen=True, slots=True, eq=False)
class PrimitiveType:
    """One primitive type; a singleton, compared by identity.

    Attributes:
        name: spelling in HLO text, such as ``f32``.
        number: value in the ``PrimitiveType`` enum of ``xla_data.proto``.
        bits: width of one element in bits; 0 for types without elements.
        kind: the family of values.
        numpy: NumPy dtype of host arrays; None for types without elements.
        is_array: true if arrays of this type exist.
    """

    name: str
    number: int
    bits: int
    kind: Kind
    numpy: np.dtype[Any] | None
    is_array: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_array", self.kind in _ARRAY_KINDS)

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    @property
    def np(self) -> np.dtype[Any]:
        """NumPy dtype of host arrays; a ShapeError for types without elements."""
        if self.numpy is None:
            raise ShapeError(f"{self.name} has no elements", why="only array types have a dtype")
        return self.numpy

    @property
    def is_integral(self) -> bool:
        """True for signed and unsigned integers (not pred)."""
        return self.kind is Kind.SINT or self.kind is Kind.UINT

    @property
    def is_signed(self) -> bool:
        """True for signed integers."""
        return self.kind is Kind.SINT

    @property
    def is_float(self) -> bool:
        """True for real floating-point types of any width."""
        return self.kind is Kind.FLOAT

    @property
    def is_narrow_float(self) -> bool:
        """True for floats of fewer than 32 bits, which hold a sum of many numbers less well."""
        return self.is_float and self.bits < 32

    @property
    def is_complex(self) -> bool:
        """True for c64 and c128."""
        return self.kind is Kind.COMPLEX

    @property
    def host_nbytes(self) -> int:
        """Bytes of one element in a host array; sub-byte types take one whole byte."""
        return self.numpy.itemsize if self.numpy is not None else 0

    @property
    def component(self) -> PrimitiveType:
        """Type of the real part of a complex type; the type itself otherwise."""
        return {C64: F32, C128: F64}.get(self, self)


def _make(name: str, number: int, bits: int, kind: Kind, numpy: Any = None) -> PrimitiveType:
    return PrimitiveType(name, number, bits, kind, None if numpy is None else np.dtype(numpy))


PRED = _make("pred", 1, 8, Kind.PRED, np.bool_)
S1 = _make("s1", 30, 1, Kind.SINT, ml_dtypes.int1)
S2 = _make("s2", 26, 2, Kind.SINT, ml_dtypes.int2)
S4 = _make("s4", 21, 4, Kind.SINT, ml_dtypes.int4)
S8 = _make("s8", 2, 8, Kind.SINT, np.int8)
S16 = _make("s16", 3, 16, Kind.SINT, np.int16)
S32 = _make("s32", 4, 32, Kind.SINT, np.int32)
S64 = _make("s64", 5, 64, Kind.SINT, np.int64)
U1 = _make("u1", 31, 1, Kind.UINT, ml_dtypes.uint1)
U2 = _make("u2", 27, 2, Kind.UINT, ml_dtypes.uint2)
U4 = _make("u4", 22, 4, Kind.UINT, ml_dtypes.uint4)
U8 = _make("u8", 6, 8, Kind.UINT, np.uint8)
U16 = _make("u16", 7, 16, Kind.UINT, np.uint16)
U32 = _make("u32", 8, 32, Kind.UINT, np.uint32)
U64 = _make("u64", 9, 64, Kind.UINT, np.uint64)
F16 = _make("f16", 10, 16, Kind.FLOAT, np.float16)
BF16 = _make("bf16", 16, 16, Kind.FLOAT, ml_dtypes.bfloat16)
F32 = _make("f32", 11, 32, Kind.FLOAT, np.float32)
F64 = _make("f64", 12, 64, Kind.FLOAT, np.float64)
F8E5M2 = _make("f8e5m2", 19, 8, Kind.FLOAT, ml_dtypes.float8_e5m2)
F8E4M3 = _make("f8e4m3", 28, 8, Kind.FLOAT, ml_dtypes.float8_e4m3)
F8E4M3FN = _make("f8e4m3fn", 20, 8, Kind.FLOAT, ml_dtypes.float8_e4m3fn)
F8E4M3B11FNUZ = _make("f8e4m3b11fnuz", 23, 8, Kind.FLOAT, ml_dtypes.float8_e4m3b11fnuz)
F8E3M4 = _make("f8e3m4", 29, 8, Kind.FLOAT, ml_dtypes.float8_e3m4)
F8E5M2FNUZ = _make("f8e5m2fnuz", 24, 8, Kind.FLOAT, ml_dtypes.float8_e5m2fnuz)
F8E4M3FNUZ = _make("f8e4m3fnuz", 25, 8, Kind.FLOAT, ml_dtypes.float8_e4m3fnuz)
F8E8M0FNU = _make("f8e8m0fnu", 33, 8, Kind.FLOAT, ml_dtypes.float8_e8m0fnu)
F4E2M1FN = _make("f4e2m1fn", 32, 4, Kind.FLOAT, ml_dtypes.float4_e2m1fn)
F6E3M2FN = _make("f6e3m2fn", 35, 6, Kind.FLOAT, ml_dtypes.float6_e3m2fn)
F6E2M3FN = _make("f6e2m3fn", 36, 6, Kind.FLOAT, ml_dtypes.float6_e2m3fn)
C64 = _make("c64", 15, 64, Kind.COMPLEX, np.complex64)
C128 = _make("c128", 18, 128, Kind.COMPLEX, np.complex128)
TUPLE = _make("tuple", 13, 0, Kind.TUPLE)
OPAQUE = _make("opaque", 14, 0, Kind.OPAQUE)
TOKEN = _make("token", 17, 0, Kind.TOKEN)
BUFFER = _make("b", 34, 0, Kind.BUFFER)

ALL: tuple[PrimitiveType, ...] = (
    PRED, S1, S2, S4, S8, S16, S32, S64, U1, U2, U4, U8, U16, U32, U64, F16, BF16, F32, F64,
    F8E5M2, F8E4M3, F8E4M3FN, F8E4M3B11FNUZ, F8E3M4, F8E5M2FNUZ, F8E4M3FNUZ, F8E8M0FNU, F4E2M1FN,
    F6E3M2FN, F6E2M3FN, C64, C128, TUPLE, OPAQUE, TOKEN, BUFFER,
)  # fmt: skip

BY_NAME: Mapping[str, PrimitiveType] = MappingProxyType({t.name: t for t in ALL})
BY_NUMBER: Mapping[int, PrimitiveType] = MappingProxyType({t.number: t for t in ALL})
_BY_NUMPY: Mapping[np.dtype[Any], PrimitiveType] = MappingProxyType(
    {t.numpy: t for t in ALL if t.numpy is not None}
)

ARRAY_TYPES: tuple[PrimitiveType, ...] = tuple(t for t in ALL if t.is_array)
INTEGERS: tuple[PrimitiveType, ...] = tuple(t for t in ALL if t.is_integral)
FLOATS: tuple[PrimitiveType, ...] = tuple(t for t in ALL if t.is_float)
COMPLEXES: tuple[PrimitiveType, ...] = (C64, C128)


def by_name(name: str) -> PrimitiveType:
    """The type spelled ``name`` in HLO text; a ShapeError if there is none."""
    found = BY_NAME.get(name)
    if found is None:
        known = ", ".join(BY_NAME)
        raise ShapeError(f"unknown primitive type {name!r:.80}", hint=f"one of {known}")
    return found


def by_numpy(dtype: Any) -> PrimitiveType:
    """The type whose host arrays have this NumPy dtype; a ShapeError if there is none."""
    found = _BY_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise ShapeError(f"NumPy dtype {dtype} has no HLO counterpart", hint="cast the array first")
    return found
