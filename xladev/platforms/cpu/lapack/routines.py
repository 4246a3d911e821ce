"""The routines that kernels call: what each takes, so that a pointer is used as what it is.

Signatures are those of LAPACK 3 (netlib.org/lapack) in C: every argument is a pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIBRARY_PREFIX = "xladev_lapack."
"""Before the names of what code imports."""
BEGIN, END = f"{LIBRARY_PREFIX}begin", f"{LIBRARY_PREFIX}end"
"""Functions around the calls of a kernel, without arguments: see `threads.ll`."""

_SIGNATURES: Mapping[str, str] = MappingProxyType(
    {
        "potrf": "sdcz c i T i i",
        "getrf": "sdcz i i T i i i",
        "geqrf": "sdcz i i T i T T i i",
        "geqp3": "sd   i i T i i T T i i",
        "geqp3.complex": "cz i i T i i T T i R i",
        "orgqr": "sd   i i i T i T T i i",
        "ungqr": "cz   i i i T i T T i i",
        "ormqr": "sd   c c i i i T i T T i T i i",
        "unmqr": "cz   c c i i i T i T T i T i i",
        "gesdd": "sd   c i i T i T T i T i T i i i",
        "gesdd.complex": "cz c i i T i R T i T i T i R i i",
        "gesvd": "sd   c c i i T i T T i T i T i i",
        "gesvd.complex": "cz c c i i T i R T i T i T i R i",
        "syevd": "sd   c c i T i T T i i i i",
        "heevd": "cz   c c i T i R T i R i i i i",
        "geev": "sd    c c i T i T T T i T i T i i",
        "geev.complex": "cz c c i T i T T i T i T i R i",
        "gees": "sd    c c F i T i i T T T i T i i i",
        "gees.complex": "cz c c F i T i i T T i T i R i i",
        "gehrd": "sdcz i i i T i T T i i",
        "sytrd": "sd   c i T i R R T T i i",
        "hetrd": "cz   c i T i R R T T i i",
        "gtsv": "sdcz  i i T T T T i i",
        "trsm": "sdcz  c c c c i i T T i T i",
    }
)
"""By name: letters, then arguments: characters (c), integers (i), elements (T), reals (R) and a
function (F)."""

BLAS = frozenset({"trsm"})
"""Routines of BLAS rather than LAPACK."""

SIGNATURES: Mapping[str, str] = MappingProxyType(
    {
        letter + name.partition(".")[0]: "".join(arguments)
        for name, text in _SIGNATURES.items()
        for letters, *arguments in [text.split()]
        for letter in letters
    }
)
"""Kinds of the arguments, by symbol such as ``dpotrf``."""


def is_blas(symbol: str) -> bool:
    """Whether BLAS has a routine, rather than LAPACK."""
    return symbol[1:] in BLAS
