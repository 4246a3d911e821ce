"""Compares a platform with the evaluator on one program, as strictly as rounding allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value
from xladev.testing.limits import allowed_differences
from xladev.testing.noise import evaluated, leaves


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a program on a platform.

    Attributes:
        kind: ``error``, ``number`` (of results), ``type`` or ``value``.
        detail: what exactly.
        result: number of the result at fault; -1 if none.
    """

    kind: str
    detail: str
    result: int = -1

    def __str__(self) -> str:
        where = f" in result {self.result}" if self.result >= 0 else ""
        return f"{self.kind}{where}: {self.detail}"


def run_on_platform(
    module: HloModule,
    arguments: Sequence[Value],
    platform: str,
    options: CompileOptions | None = None,
) -> list[Array]:
    """Arrays of the results of all devices, each given the same arguments.

    Raises:
        XladevError: it could not be compiled or run.
    """
    compiled = compile(module, platform, options)
    rows = compiled.run_on_devices([arguments] * len(compiled.devices))
    return [np.asarray(leaf) for row in rows for leaf in leaves(row)]


def compare_with_evaluator(
    module: HloModule,
    arguments: Sequence[Value],
    platform: str,
    options: CompileOptions | None = None,
) -> Finding | None:
    """What is wrong with the program on the platform; None if nothing is.

    Raises:
        XladevError: the evaluator itself cannot run the program.
    """
    wanted = evaluated(module, arguments)
    try:
        found = run_on_platform(module, arguments, platform, options)
    except XladevError as error:
        return Finding("error", str(error))
    return compare_results(module, arguments, found, wanted)


def compare_results(
    module: HloModule,
    arguments: Sequence[Value],
    found: Sequence[Array],
    wanted: Sequence[Array],
    *,
    coarse_sums: bool = False,
) -> Finding | None:
    """What is wrong with results, given the evaluator's; None if nothing is.

    ``coarse_sums`` allows sums of narrow floats that were accumulated in these.
    """
    if len(found) != len(wanted):
        return Finding("number", f"{len(found)} results, want {len(wanted)}")
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        if got.dtype != want.dtype or got.shape != want.shape:
            detail = f"{got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
            return Finding("type", detail, number)
    unequal = [not equal_elements(g, w).all() for g, w in zip(found, wanted, strict=True)]
    if not any(unequal):
        return None
    allowed = allowed_differences(module, arguments, wanted, coarse_sums=coarse_sums)
    for number, (got, want, limit) in enumerate(zip(found, wanted, allowed, strict=True)):
        if unequal[number]:
            finding = _difference(got, want, limit, number)
            if finding is not None:
                return finding
    return None


def equal_elements(got: Array, want: Array) -> Array:
    """Where elements are the same: NaN equals NaN, and zeros have the same sign.

    Not in types without NaN, where a zero may come of one, whose sign is open.
    """
    if want.dtype.kind == "c":
        # beside NaN, C99 (Annex G) leaves the sign of the other part open
        vague = np.isnan(want.real) | np.isnan(want.imag)
        sizes = [equal_elements(np.abs(g), np.abs(w)) for g, w in _parts(got, want)]
        real, imag = (equal_elements(g, w) for g, w in _parts(got, want))
        return (real & imag) | (vague & sizes[0] & sizes[1])
    with np.errstate(invalid="ignore"):  # NaN is compared on purpose; ml_dtypes' types say so aloud
        same = np.asarray(got == want)
        if want.dtype.kind in "iub":
            return same
        if not np.isnan(np.asarray(np.nan).astype(want.dtype)):
            return same
        signs = np.signbit(np.asarray(got, np.float64)) == np.signbit(np.asarray(want, np.float64))
        return (same & (signs | (want != 0))) | (np.asarray(got != got) & np.asarray(want != want))


def _parts(got: Array, want: Array) -> list[tuple[Array, Array]]:
    return [(got.real, want.real), (got.imag, want.imag)]


def _difference(got: Array, want: Array, limit: Array, number: int) -> Finding | None:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        distance = np.abs(np.asarray(got, wide) - np.asarray(want, wide))
    good = equal_elements(got, want) | ((distance <= limit) & (limit > 0)) | np.isinf(limit)
    if good.all():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(~good)))
    values = [np.atleast_1d(a)[at] for a in (got, want, limit)]
    detail = (
        f"{int((~good).sum())} of {want.size} differ, first at {list(at)}: "
        f"got {values[0]}, want {values[1]} within {values[2]:.3g}"
    )
    return Finding("value", detail, number)
