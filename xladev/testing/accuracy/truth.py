"""The functions whose accuracy is promised, and their true values in more precision.

For f32 the truth is computed in f64, whose error is less than a millionth of a place of f32: by
NumPy's functions, and the C library's error function. For f64 it is computed in the 80 bits of
x86's long double. Neither shares code with any backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.hlo.literal import Array

Truth = Callable[..., Array]
Wide = Any
"""A NumPy type of floats: f64 or long double."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of one function.

    Attributes:
        opcode: as spelled in HLO text.
        truth: its values, computed in the type of its arguments.
        ulps: largest error in f32, in units in the last place.
        wide_ulps: the same in f64.
        arity: number of operands.
        limits: where inputs are drawn from in f64.
        has_wide_truth: whether ``truth`` takes long double.
    """

    opcode: str
    truth: Truth
    ulps: float
    wide_ulps: float = 4.0
    arity: int = 1
    limits: tuple[float, float] = (-800.0, 800.0)
    has_wide_truth: bool = True


_SMALL = 2.0**-12
"""Below, two terms of erf's series are enough: the third is 2**-50 of the first."""
_FLAT = 6.5
"""From here on erf is 1 in f64."""


def _erf(x: Array) -> Array:
    series = x * (2 / math.sqrt(math.pi)) * (1 - x * x / 3)
    found = np.where(np.abs(x) < _SMALL, series, np.sign(x))
    found = np.where(np.isnan(x), x, found)
    curved = np.flatnonzero((np.abs(x) >= _SMALL) & (np.abs(x) < _FLAT))
    found[curved] = [math.erf(v) for v in x[curved].tolist()]
    return found


def _logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, np.ones_like(x)) / (1 + small)


_POSITIVE = (0.0, 1e300)
_UNIT = (-1.0, 1.0)

PROMISES: Sequence[Promise] = (
    Promise("exponential", np.exp, 1, limits=(-745.0, 710.0)),
    Promise("log", np.log, 1, limits=_POSITIVE),
    Promise("sqrt", np.sqrt, 1, limits=_POSITIVE),
    Promise("rsqrt", lambda x: 1 / np.sqrt(x), 1, limits=_POSITIVE),
    Promise("cbrt", np.cbrt, 1, limits=(-1e300, 1e300)),
    Promise("tanh", np.tanh, 2, limits=(-25.0, 25.0)),
    Promise("erf", _erf, 2, limits=(-7.0, 7.0), has_wide_truth=False),
    Promise("sine", np.sin, 2, limits=(-1e6, 1e6)),
    Promise("cosine", np.cos, 2, limits=(-1e6, 1e6)),
    Promise("logistic", _logistic, 2),
    Promise("exponential-minus-one", np.expm1, 2, limits=(-50.0, 710.0)),
    Promise("log-plus-one", np.log1p, 2, limits=(-1.0, 1e300)),
    Promise("tan", np.tan, 4, limits=(-1e6, 1e6)),
    Promise("asin", np.arcsin, 4, limits=_UNIT),
    Promise("acos", np.arccos, 4, limits=_UNIT),
    Promise("asinh", np.arcsinh, 4, limits=(-1e300, 1e300)),
    Promise("acosh", np.arccosh, 4, limits=(1.0, 1e300)),
    Promise("atanh", np.arctanh, 4, limits=_UNIT),
    Promise("power", np.power, 4, arity=2, limits=(-300.0, 300.0)),
    Promise("atan2", np.arctan2, 4, arity=2, limits=(-1e300, 1e300)),
)
"""The functions, those with the strictest promise first."""

BY_OPCODE: Mapping[str, Promise] = MappingProxyType({p.opcode: p for p in PROMISES})


def true_values(promise: Promise, operands: Sequence[Array], wide: Wide) -> Array:
    """The function's values at operands of a narrower type, computed in ``wide``."""
    with np.errstate(all="ignore"):
        return np.asarray(promise.truth(*[o.astype(wide) for o in operands]))
