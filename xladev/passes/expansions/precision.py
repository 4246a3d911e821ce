"""In which element types expansions compute."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType


def working_type(element_type: PrimitiveType) -> PrimitiveType:
    """f32 for narrower floats; the type itself otherwise."""
    narrow = element_type.is_float and element_type.bits < 32
    return dt.F32 if narrow else element_type
