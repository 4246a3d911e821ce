"""In which element types expansions compute."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType


def wider_float(element_type: PrimitiveType) -> PrimitiveType:
    """f32 for narrower floats; the type itself otherwise."""
    return dt.F32 if element_type.is_narrow_float else element_type
