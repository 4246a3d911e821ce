"""Conversions between element types that lose nothing, and parts of complex numbers."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import STANDARD_FLOATS
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite


@lru_cache(maxsize=2048)
def holds_exactly(source: PrimitiveType, target: PrimitiveType) -> bool:
    """True if every value of ``source`` is one of ``target``, infinities and zeros included.

    Complex types hold nothing here, nor do floats outside of the four standard ones.
    """
    if source is target:
        return True
    if source is dt.PRED:
        return target.is_integral or target in STANDARD_FLOATS
    if source.is_integral:
        return _holds_integers(source, target)
    return source.is_float and target in STANDARD_FLOATS and _holds_floats(source, target)


def _holds_integers(source: PrimitiveType, target: PrimitiveType) -> bool:
    digits = source.bits - source.is_signed
    if target in STANDARD_FLOATS:
        found = ml_dtypes.finfo(target.np)  # type: ignore[no-untyped-call]
        return digits <= int(found.nmant) + 1 and digits < int(found.maxexp)
    if not target.is_integral or (source.is_signed and not target.is_signed):
        return False
    return digits <= target.bits - target.is_signed


def _holds_floats(source: PrimitiveType, target: PrimitiveType) -> bool:
    narrow = ml_dtypes.finfo(source.np)  # type: ignore[no-untyped-call]
    wide = ml_dtypes.finfo(target.np)  # type: ignore[no-untyped-call]
    return bool(
        narrow.nmant <= wide.nmant
        and float(narrow.max) <= float(wide.max)
        and float(narrow.smallest_subnormal) >= float(wide.smallest_subnormal)
    )


@rewrite(m.Convert(m.Op("x")))
def convert_to_same(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """convert(x) = x where x has that type already."""
    return x if x.shape.element_type is root.shape.element_type else None


@rewrite(m.Convert(m.Convert(m.Op("x"), capture="middle")))
def convert_twice(
    r: Rewriter, root: HloInstruction, x: HloInstruction, middle: HloInstruction
) -> HloInstruction | None:
    """convert(convert(x)) = convert(x) where the type between holds every value of x.

    Integers wrap and floats saturate where an integer type is too small, so an integer may not go
    through a float to such a type.
    """
    source, between, target = (i.shape.element_type for i in (x, middle, root))
    if not holds_exactly(source, between):
        return None
    saturates = source.is_integral and between.is_float and target.is_integral
    if saturates and not holds_exactly(source, target):
        return None
    return r.convert(x, target)


@rewrite(m.BitcastConvert(m.Op("x")))
def bitcast_to_same(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """bitcast-convert(x) = x where x has that type already."""
    return x if x.shape.element_type is root.shape.element_type else None


@rewrite(m.BitcastConvert(m.BitcastConvert(m.Op("x"), capture="middle")))
def bitcast_twice(
    r: Rewriter, root: HloInstruction, x: HloInstruction, middle: HloInstruction
) -> HloInstruction | None:
    """Two changes of type at one width are one."""
    types = {i.shape.element_type for i in (x, middle, root)}
    if len({t.bits for t in types}) != 1 or dt.PRED in types:
        return None
    return r.bitcast_convert(x, root.shape.element_type)


@rewrite(m.Opcode("reduce-precision", m.Op("x")))
def keep_precision(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """Rounding to at least the precision that a type has changes nothing."""
    if x.shape.element_type not in STANDARD_FLOATS:
        return None
    mantissa = int(ml_dtypes.finfo(x.shape.element_type.np).nmant)  # type: ignore[no-untyped-call]
    exponent = x.shape.element_type.bits - 1 - mantissa
    kept = root["mantissa_bits"] >= mantissa and root["exponent_bits"] >= exponent
    return x if kept else None


@rewrite(m.Real(m.Complex(m.Op("x"), m.Op())))
def real_of_complex(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """real(complex(x, y)) = x."""
    return x


@rewrite(m.Imag(m.Complex(m.Op(), m.Op("y"))))
def imag_of_complex(r: Rewriter, root: HloInstruction, y: HloInstruction) -> HloInstruction:
    """imag(complex(x, y)) = y."""
    return y


@rewrite(m.Complex(m.Real(m.Op("z")), m.Imag(m.Op("z"))))
def complex_of_parts(r: Rewriter, root: HloInstruction, z: HloInstruction) -> HloInstruction | None:
    """complex(real(z), imag(z)) = z."""
    return z if z.shape.element_type.is_complex else None


@rewrite(m.Real(m.Op("x")))
def real_of_real(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """real(x) = x for reals."""
    return None if x.shape.element_type.is_complex else x


CONVERSION: tuple[RewriteRule, ...] = (
    convert_to_same, convert_twice, bitcast_to_same, bitcast_twice, keep_precision, real_of_complex,
    imag_of_complex, complex_of_parts, real_of_real,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
