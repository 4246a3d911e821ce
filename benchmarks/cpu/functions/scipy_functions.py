"""Fourier transforms and linear algebra in SciPy; of matrices one at a time, as SciPy has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg

from benchmarks.cpu.functions.inputs import Parameters
from benchmarks.cpu.wire import Array

Function = Callable[..., Any]


def _fft(p: Parameters, threads: int) -> Function:
    if "axis" in p:
        one = {"fft": scipy.fft.fft, "rfft": scipy.fft.rfft}[p["op"]]
        return lambda x: one(x, axis=p["axis"], workers=threads)
    axes = tuple(range(-p.get("rank", 1), 0))
    many = {"fft": scipy.fft.fftn, "ifft": scipy.fft.ifftn, "rfft": scipy.fft.rfftn,
            "irfft": scipy.fft.irfftn}[p["op"]]  # fmt: skip
    return lambda x: many(x, axes=axes, workers=threads)


def _vectors(*parts: Array) -> tuple[Array, ...]:
    return tuple(np.abs(part) for part in parts)


def _eigh(a: Array) -> tuple[Array, ...]:
    values, vectors = scipy.linalg.eigh(a, driver="evd")
    return values, *_vectors(vectors)


def _eig(a: Array) -> tuple[Array, ...]:
    values, vectors = scipy.linalg.eig(a)
    return np.sort(np.abs(values)), np.abs(vectors).sum()


def _svd(a: Array) -> tuple[Array, ...]:
    left, values, right = scipy.linalg.svd(a, full_matrices=False)
    return values, *_vectors(left, right)


_LINALG: Mapping[str, Function] = {
    "cholesky": lambda a: scipy.linalg.cholesky(a, lower=True),
    "qr": lambda a: _vectors(*scipy.linalg.qr(a, mode="economic")),
    "eigh": _eigh,
    "svd": _svd,
    "eig": _eig,
    "schur": lambda a: tuple((part**2).sum() for part in scipy.linalg.schur(a)),
    "triangular_solve": lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True),
    "solve": scipy.linalg.solve,
    "lstsq": lambda a, b: scipy.linalg.lstsq(a, b)[0],
    "inverse": scipy.linalg.inv,
    "determinant": scipy.linalg.det,
    "expm": scipy.linalg.expm,
}


def function(kind: str, p: Parameters, threads: int) -> Function | None:
    """What computes a row with so many threads; None if SciPy has no plain way to say it."""
    if kind == "fft":
        return _fft(p, threads)
    return None if "batch" in p else _LINALG.get(kind)
