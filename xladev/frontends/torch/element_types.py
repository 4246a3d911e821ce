"""Torch's dtypes and HLO's element types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

_NAMES = {
    "bool": dt.PRED, "int8": dt.S8, "int16": dt.S16, "int32": dt.S32, "int64": dt.S64,
    "uint8": dt.U8, "uint16": dt.U16, "uint32": dt.U32, "uint64": dt.U64, "float16": dt.F16,
    "bfloat16": dt.BF16, "float32": dt.F32, "float64": dt.F64, "complex64": dt.C64,
    "complex128": dt.C128, "float8_e5m2": dt.F8E5M2, "float8_e4m3fn": dt.F8E4M3FN,
    "float8_e5m2fnuz": dt.F8E5M2FNUZ, "float8_e4m3fnuz": dt.F8E4M3FNUZ,
}  # fmt: skip

TYPE_OF: Mapping[torch.dtype, PrimitiveType] = MappingProxyType(
    {getattr(torch, name): element for name, element in _NAMES.items()}
)
DTYPE_OF: Mapping[PrimitiveType, torch.dtype] = MappingProxyType(
    {element: dtype for dtype, element in TYPE_OF.items()}
)


def type_of(dtype: torch.dtype) -> PrimitiveType:
    """The element type of a torch dtype.

    Raises:
        UnsupportedError: there is none, as for quantised types.
    """
    found = TYPE_OF.get(dtype)
    if found is None:
        raise UnsupportedError(f"{dtype} is no element type of HLO", hint="cast the tensor first")
    return found
