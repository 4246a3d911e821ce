"""Results in extended precision, against which errors of all peers are measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.cpu.functions import numpy_functions
from benchmarks.cpu.functions.inputs import Parameters
from benchmarks.cpu.wire import Array

REFERENCED = ("fft",)
"""Kinds of rows that have a reference."""

_WIDE = {"f": np.longdouble, "c": np.clongdouble}


def reference(kind: str, p: Parameters, inputs: Sequence[Array]) -> list[Array] | None:
    """What a row gives in NumPy's longest floats; None if that is not known.

    NumPy's transforms compute in the type of their argument, 80-bit floats on x86.
    """
    make = numpy_functions.FUNCTIONS.get(kind) if kind in REFERENCED else None
    function = make(p) if make else None
    if function is None:
        return None
    return [np.asarray(function(*(a.astype(_WIDE[a.dtype.kind]) for a in inputs)))]


def relative_error(got: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Euclidean norm of what is off over that of what is wanted, of all results together."""
    off = sum(float((np.abs(a - b) ** 2).sum()) for a, b in zip(got, wanted, strict=True))
    whole = sum(float((np.abs(b) ** 2).sum()) for b in wanted)
    return float(np.sqrt(off / whole)) if whole else 0.0
