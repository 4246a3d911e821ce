"""Numbers in text: exact conversion between spellings and the elements of every array type.

Floats are spelled by the shortest digits that read back as the same bits; NaNs carry their sign
and, where it is not the plain quiet one, their payload (``-nan(0x1)``), as XLA prints them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from xladev.hlo.dtype import PRED, PrimitiveType
from xladev.hlo.literal import Array

_INTEGER = re.compile(r"-?[0-9]+\Z")
_FLOAT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z|-?inf\Z")
_NAN = re.compile(r"(-?)nan(?:\(0x([0-9a-fA-F]{1,16})\))?\Z")
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_LONGEST_INTEGER = 40


class ElementError(ValueError):
    """An element that cannot be read; ``index`` says which, the message why."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def _reject(index: int, text: str, wanted: str) -> NoReturn:
    shown = text if len(text) <= _LONGEST_INTEGER else text[:_LONGEST_INTEGER] + "..."
    raise ElementError(index, f"{shown!r} is not {wanted}")


# -- reading


def parse_elements(texts: Sequence[str], element_type: PrimitiveType) -> Array:
    """Array of the elements spelled ``texts``, of the type's host dtype.

    Raises:
        ElementError: some text is no number of the type.
    """
    if element_type is PRED:
        return _parse_bools(texts)
    if element_type.is_integral:
        return _parse_integers(texts, element_type)
    return _parse_floats(texts, element_type)


def parse_complex(pairs: Sequence[tuple[str, str]], element_type: PrimitiveType) -> Array:
    """Array of complex elements from the spellings of their real and imaginary parts."""
    component = element_type.component
    parts = np.empty((len(pairs), 2), component.np)
    for side in range(2):
        parts[:, side] = parse_elements([pair[side] for pair in pairs], component)
    return parts.view(element_type.np).reshape(len(pairs))


def _parse_bools(texts: Sequence[str]) -> Array:
    values = [_BOOLS.get(t) for t in texts]
    if None in values:
        at = values.index(None)
        _reject(at, texts[at], "true or false")
    return np.array(values, np.bool_)


def _parse_integers(texts: Sequence[str], element_type: PrimitiveType) -> Array:
    signed = element_type.is_signed
    wraps = element_type.bits == 64
    least = -(1 << element_type.bits - 1) if signed or wraps else 0
    most = (1 << element_type.bits - int(signed)) - 1
    values: list[int] = []
    for at, text in enumerate(texts):
        if not _INTEGER.match(text):
            _reject(at, text, f"an integer of type {element_type}")
        value = int(text) if len(text) <= _LONGEST_INTEGER else most + 1
        if not least <= value <= most:
            _reject(at, text, f"in the range of {element_type}, {least} to {most}")
        values.append(value if signed else value % (1 << 64))
    return np.array(values, np.int64 if signed else np.uint64).astype(element_type.np)


def _parse_floats(texts: Sequence[str], element_type: PrimitiveType) -> Array:
    nans = {
        at: _nan_bits(at, text, element_type)
        for at, text in enumerate(texts)
        if not _FLOAT.match(text)
    }
    wide = np.array([1.0 if at in nans else float(t) for at, t in enumerate(texts)], np.float64)
    with np.errstate(all="ignore"):
        narrow: Array = wide.astype(element_type.np)
        odd = ~(np.isfinite(wide) & np.isfinite(narrow.astype(np.float64)))
    for at in np.flatnonzero(odd).tolist():
        if not texts[at].endswith("inf") or not np.isinf(narrow[at]):
            _reject(at, texts[at], f"in the range of {element_type}")
    if nans:
        bits = narrow.view(bits_dtype(element_type))
        for at, pattern in nans.items():
            bits[at] = pattern
    return narrow


def _nan_bits(at: int, text: str, element_type: PrimitiveType) -> int:
    """Bit pattern of the NaN spelled ``text``."""
    found = _NAN.match(text)
    if found is None:
        _reject(at, text, f"a number of type {element_type}")
    form = float_form(element_type)
    if form.plain_nan is None:
        _reject(at, text, f"in the range of {element_type}, which has no NaN")
    negative, payload = found.groups()
    sign = form.sign_bit if negative else 0
    if payload is None:
        return form.plain_nan | sign
    if not form.has_payload or not 0 < int(payload, 16) <= form.mantissa_mask:
        _reject(at, text, f"a NaN of type {element_type}, whose payload mask is {form.payloads}")
    return (form.plain_nan & ~form.mantissa_mask) | int(payload, 16) | sign


# -- writing


def format_elements(values: Array, element_type: PrimitiveType) -> list[str]:
    """Spellings of the elements of a one-dimensional array."""
    if element_type is PRED:
        return ["true" if v else "false" for v in values.tolist()]
    if element_type.is_integral:
        return [str(int(v)) for v in values.tolist()]
    if element_type.is_complex:
        return _format_complex(values, element_type)
    return _format_floats(values, element_type)


def format_float(value: float) -> str:
    """Shortest spelling of a Python float."""
    return _tidy(repr(value))


def _format_complex(values: Array, element_type: PrimitiveType) -> list[str]:
    component = element_type.component
    parts = np.ascontiguousarray(values).view(component.np).reshape(-1, 2)
    real = format_elements(parts[:, 0], component)
    imag = format_elements(parts[:, 1], component)
    return [f"({r}, {i})" for r, i in zip(real, imag, strict=True)]


def _format_floats(values: Array, element_type: PrimitiveType) -> list[str]:
    patterns = np.ascontiguousarray(values).view(bits_dtype(element_type))
    if element_type.bits < 32:
        return [_short_spelling(element_type, int(p)) for p in patterns.tolist()]
    texts = [_tidy(t) for t in map(str, values if element_type.bits == 32 else values.tolist())]
    for at in np.flatnonzero(np.isnan(values)):
        texts[at] = _format_nan(int(patterns[at]), element_type)
    if element_type.bits == 32:
        _repair_double_rounding(texts, values)
    return texts


def _repair_double_rounding(texts: list[str], values: Array) -> None:
    """Respells the f32 whose shortest digits would be rounded twice when read through f64."""
    read = np.array([float(t.split("(")[0]) for t in texts], np.float64).astype(np.float32)
    for at in np.flatnonzero((read != values) & ~np.isnan(values)):
        texts[at] = repr(float(values[at]))


def _tidy(text: str) -> str:
    """Without a fraction of zero, except that -0.0 keeps it: ``-0`` would read as an integer."""
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


@lru_cache(maxsize=1 << 17)
def _short_spelling(element_type: PrimitiveType, pattern: int) -> str:
    """Fewest digits that read back as the same element of a type of 16 bits or fewer."""
    with np.errstate(all="ignore"):
        return _search_spelling(element_type, pattern)


def _search_spelling(element_type: PrimitiveType, pattern: int) -> str:
    value = np.array([pattern], bits_dtype(element_type)).view(element_type.np)
    wide = float(value.astype(np.float64)[0])
    if wide != wide:
        return _format_nan(pattern, element_type)
    if wide in (float("inf"), float("-inf")):
        return str(wide)
    for digits in range(1, 18):
        text = f"{wide:.{digits}g}"
        back = np.array([float(text)], np.float64).astype(element_type.np)
        if int(back.view(bits_dtype(element_type))[0]) == pattern:
            return "-0.0" if text == "-0" else text
    return repr(wide)


def _format_nan(pattern: int, element_type: PrimitiveType) -> str:
    form = float_form(element_type)
    sign = "-" if pattern & form.sign_bit else ""
    if not form.has_payload or pattern & ~form.sign_bit == form.plain_nan:
        return f"{sign}nan"
    return f"{sign}nan(0x{pattern & form.mantissa_mask:x})"


# -- what floats look like


class FloatForm:
    """Where a float type keeps its sign, mantissa and NaNs.

    Attributes:
        sign_bit: mask of the sign; 0 for types without one.
        mantissa_mask: mask of the mantissa, which is a NaN's payload.
        plain_nan: bits of the quiet NaN without payload; None for types without NaN.
        has_payload: True if the type has NaNs that differ in payload.
    """

    __slots__ = ("has_payload", "mantissa_mask", "plain_nan", "sign_bit")

    def __init__(self, element_type: PrimitiveType) -> None:
        with np.errstate(all="ignore"):
            self._measure(element_type)

    def _measure(self, element_type: PrimitiveType) -> None:
        info: Any = ml_dtypes.finfo(element_type.np)  # type: ignore[no-untyped-call]
        patterns = bits_dtype(element_type)
        nan = np.array([np.nan]).astype(element_type.np)
        has_nan = bool(np.isnan(nan.astype(np.float64))[0])
        has_infinity = np.isinf(np.array([np.inf]).astype(element_type.np).astype(np.float64))[0]
        ones = np.array([-1.0, 1.0]).astype(element_type.np)
        has_sign = ones.astype(np.float64)[0] == -1.0
        negative, positive = ones.view(patterns).tolist()
        self.mantissa_mask = (1 << int(info.nmant)) - 1
        self.has_payload = has_nan and bool(has_infinity)
        self.sign_bit = (negative ^ positive) if has_nan and has_sign else 0
        self.plain_nan = int(nan.view(patterns)[0]) & ~self.sign_bit if has_nan else None
        if self.plain_nan == 0:  # the types whose only NaN is the pattern of -0
            self.plain_nan, self.sign_bit = 1 << (element_type.bits - 1), 0

    @property
    def payloads(self) -> str:
        """The payloads there are, as an error message names them."""
        return f"{self.mantissa_mask:#x}" if self.has_payload else "empty"


@lru_cache(maxsize=32)
def float_form(element_type: PrimitiveType) -> FloatForm:
    """The form of a float type."""
    return FloatForm(element_type)


def bits_dtype(element_type: PrimitiveType) -> np.dtype[Any]:
    """Unsigned dtype as wide as one host element."""
    return np.dtype(f"u{element_type.host_nbytes}")
