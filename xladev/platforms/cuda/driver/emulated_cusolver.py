"""Emulated cuSOLVER, by the names and arguments of CuPy's module, on emulated memory.

Every function checks what the library checks: sizes, leading dimensions, the length of the
workspace, alignment, and that every element is in one live allocation. It computes in f64 or
c128, and overwrites its workspace and what a routine destroys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.codegen.simt.emulation.host_threads import PATTERN
from xladev.hlo.custom_calls import factor, spectral
from xladev.platforms.cuda.driver.emulated_calls import Array, Buffers, CallMemory
from xladev.platforms.cuda.driver.interface import LibraryError

HANDLE = 0xC0501
"""The handle of the library."""
_OPTIONS = 0x0B710
_INVALID = "CUSOLVER_STATUS_INVALID_VALUE"
_TYPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"s": ("f32", "f32"), "d": ("f64", "f64"), "c": ("c64", "f32"), "z": ("c128", "f64")}
)


@dataclass(frozen=True, slots=True)
class _Routine:
    """One function for one type.

    Attributes:
        memory: what addresses point to.
        name: of the function.
        dtype: of matrices.
        real: of singular values and eigenvalues.
    """

    memory: CallMemory
    name: str
    dtype: str
    real: str

    def refuse(self, why: str) -> LibraryError:
        """The error of a wrong argument."""
        return LibraryError(f"cusolverDn{self.name}", _INVALID, why)

    def require(self, holds: bool, why: str) -> None:
        """Refuses arguments for which something does not hold."""
        if not holds:
            raise self.refuse(why)

    def matrix(self, address: int, rows: int, columns: int, leading: int, batch: int = 1) -> Array:
        """Column-major matrices, ``[batch, rows, columns]``."""
        self.require(min(rows, columns) >= 0, f"{rows} rows and {columns} columns")
        wanted = max(rows, 1)
        self.require(leading >= wanted, f"leading dimension {leading} is less than {wanted}")
        buffers = self._buffers(address)
        return buffers.matrices(0, self.dtype, batch, rows, columns, leading, leading * columns)

    def vector(self, address: int, count: int, dtype: str = "") -> Array:
        """Numbers that are contiguous; of the routine's type unless said otherwise."""
        return self._buffers(address).array(0, dtype or self.dtype, count)

    def _buffers(self, address: int) -> Buffers:
        return Buffers(self.memory, [address], f"cusolverDn{self.name}", _INVALID)

    def use(self, workspace: int, length: int, wanted: int) -> None:
        """Overwrites a workspace; refuses a short one."""
        self.require(length >= wanted, f"a workspace of {length} elements, less than {wanted}")
        _spoil(self.vector(workspace, length))

    def check_handle(self, handle: int) -> None:
        """Refuses what is no handle."""
        if handle != HANDLE:
            raise LibraryError(
                f"cusolverDn{self.name}", "CUSOLVER_STATUS_NOT_INITIALIZED", "no handle"
            )


def _spoil(x: Array) -> None:
    x[...] = np.frombuffer(bytes([PATTERN]) * x.itemsize, x.dtype)[0]


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _store(target: Array, found: Array) -> None:
    with np.errstate(all="ignore"):
        target[...] = found


# Sizes, as LAPACK states the least, in elements


def _getrf_size(r: _Routine, m: int, n: int, a: int, lda: int) -> int:
    return m * n


def _geqrf_size(r: _Routine, m: int, n: int, a: int, lda: int) -> int:
    return 32 * n


def _orgqr_size(r: _Routine, m: int, n: int, k: int, a: int, lda: int, tau: int) -> int:
    return 32 * n


def _ormqr_size(r: _Routine, side: int, trans: int, m: int, n: int, *_: int) -> int:
    return 32 * (m if side else n)


def _syevd_size(r: _Routine, job: int, uplo: int, n: int, a: int, lda: int, w: int) -> int:
    return 1 + 6 * n + 2 * n * n


def _syevj_size(
    r: _Routine, job: int, uplo: int, n: int, a: int, lda: int, w: int, options: int, batch: int
) -> int:
    return batch * 2 * n * n


def _gesvd_size(r: _Routine, m: int, n: int) -> int:
    return 3 * min(m, n) + 5 * max(m, n) + m * n


def _gesvdj_size(r: _Routine, job: int, econ: int, m: int, n: int, *_: int) -> int:
    return m * m + n * n + m * n


def _gesvdj_batched_size(r: _Routine, job: int, m: int, n: int, *rest: int) -> int:
    return rest[-1] * (m * m + n * n + m * n)


# Factors


def _getrf(
    r: _Routine, m: int, n: int, a: int, lda: int, work: int, pivots: int, info: int
) -> None:
    matrix = r.matrix(a, m, n, lda)
    r.use(work, m * n, m * n)
    lu, chosen, failed = factor.lu_factor(_wide(matrix))
    _store(matrix, lu)
    r.vector(pivots, min(m, n), "s32")[...] = chosen[0] + 1
    r.vector(info, 1, "s32")[...] = failed


def _geqrf(
    r: _Routine, m: int, n: int, a: int, lda: int, tau: int, work: int, length: int, info: int
) -> None:
    matrix = r.matrix(a, m, n, lda)
    r.use(work, length, 32 * n)
    packed, scales = factor.qr_factor(_wide(matrix))
    _store(matrix, packed)
    _store(r.vector(tau, min(m, n)), scales[0])
    r.vector(info, 1, "s32")[...] = 0


def _orgqr(
    r: _Routine, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, length: int,
    info: int,
) -> None:  # fmt: skip
    r.require(m >= n >= k >= 0, f"{m} rows, {n} columns and {k} reflectors")
    matrix = r.matrix(a, m, n, lda)
    r.use(work, length, 32 * n)
    _store(matrix, factor.householder_product(_wide(matrix), _wide(r.vector(tau, k))[None]))
    r.vector(info, 1, "s32")[...] = 0


def _ormqr(
    r: _Routine, side: int, trans: int, m: int, n: int, k: int, a: int, lda: int, tau: int,
    c: int, ldc: int, work: int, length: int, info: int,
) -> None:  # fmt: skip
    order = n if side else m
    adjoint = 2 if r.dtype[0] == "c" else 1
    r.require(side in (0, 1) and trans in (0, adjoint), f"side {side}, operation {trans}")
    r.require(0 <= k <= order, f"{k} reflectors for Q of order {order}")
    packed, target = r.matrix(a, order, k, lda), r.matrix(c, m, n, ldc)
    r.use(work, length, _ormqr_size(r, side, trans, m, n))
    scales = _wide(r.vector(tau, k))[None]
    made = factor.apply_q(
        _wide(packed), scales, _wide(target), left=not side, transpose=bool(trans)
    )
    _store(target, made)
    r.vector(info, 1, "s32")[...] = 0


# Eigenvalues and singular values


def _hermitian(r: _Routine, job: int, uplo: int, n: int, a: Array, w: Array) -> Array:
    """Decomposes in place; gives info."""
    r.require(job == 1 and uplo in (0, 1), f"job {job}, triangle {uplo}")
    half = np.triu(_wide(a)) if uplo else np.tril(_wide(a))
    vectors, values, info = spectral.hermitian_eigen(half, lower=not uplo)
    _store(a, vectors)
    _store(w, values)
    return info


def _syevd(
    r: _Routine, job: int, uplo: int, n: int, a: int, lda: int, w: int, work: int, length: int,
    info: int,
) -> None:  # fmt: skip
    r.use(work, length, _syevd_size(r, job, uplo, n, a, lda, w))
    values = r.vector(w, n, r.real)[None]
    r.vector(info, 1, "s32")[...] = _hermitian(r, job, uplo, n, r.matrix(a, n, n, lda), values)


def _syevj_batched(
    r: _Routine, job: int, uplo: int, n: int, a: int, lda: int, w: int, work: int, length: int,
    info: int, options: int, batch: int,
) -> None:  # fmt: skip
    r.require(options == _OPTIONS and batch > 0, "no options, or no batch")
    r.use(work, length, _syevj_size(r, job, uplo, n, a, lda, w, options, batch))
    values = r.vector(w, batch * n, r.real).reshape(batch, n)
    found = _hermitian(r, job, uplo, n, r.matrix(a, n, n, lda, batch), values)
    r.vector(info, batch, "s32")[...] = found


@dataclass(frozen=True, slots=True)
class _Svd:
    """Where a decomposition goes: matrices (destroyed), values, U, and V or V*."""

    a: Array
    s: Array
    u: Array
    v: Array

    def run(self, mode: str, *, is_adjoint: bool) -> Array:
        """Decomposes; gives info."""
        (values, u, vt), info = spectral.singular_values(_wide(self.a), mode)
        _spoil(self.a)
        _store(self.s, values)
        for target in (self.u, self.v):
            _spoil(target)
        if mode != "N":
            _store(self.u, u)
            _store(self.v, vt if is_adjoint else np.conj(vt.swapaxes(1, 2)))
        return info


def _gesvd(
    r: _Routine, jobu: int, jobvt: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int,
    vt: int, ldvt: int, work: int, length: int, rwork: int, info: int,
) -> None:  # fmt: skip
    mode = chr(jobu)
    r.require(m >= n, f"{m} rows are less than {n} columns")
    r.require(jobu == jobvt and mode in "ASN", f"jobs {jobu} and {jobvt}")
    r.use(work, length, _gesvd_size(r, m, n))
    parts = _Svd(
        r.matrix(a, m, n, lda),
        r.vector(s, n, r.real)[None],
        r.matrix(u, m, m if mode == "A" else n, ldu),
        r.matrix(vt, n, n, ldvt),
    )
    r.vector(info, 1, "s32")[...] = parts.run(mode, is_adjoint=True)


def _gesvdj(
    r: _Routine, job: int, econ: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int,
    v: int, ldv: int, work: int, length: int, info: int, options: int,
) -> None:  # fmt: skip
    r.require(options == _OPTIONS and job in (0, 1), f"job {job}, or no options")
    r.use(work, length, _gesvdj_size(r, job, econ, m, n))
    k = min(m, n)
    parts = _Svd(
        r.matrix(a, m, n, lda),
        r.vector(s, k, r.real)[None],
        r.matrix(u, m, k if econ else m, ldu),
        r.matrix(v, n, k if econ else n, ldv),
    )
    mode = ("S" if econ else "A") if job else "N"
    r.vector(info, 1, "s32")[...] = parts.run(mode, is_adjoint=False)


def _gesvdj_batched(
    r: _Routine, job: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int, v: int,
    ldv: int, work: int, length: int, info: int, options: int, batch: int,
) -> None:  # fmt: skip
    r.require(options == _OPTIONS and job in (0, 1), f"job {job}, or no options")
    r.require(max(m, n) <= 32 and batch > 0, f"{batch} matrices of {m} x {n}")
    r.use(work, length, _gesvdj_batched_size(r, job, m, n, batch))
    parts = _Svd(
        r.matrix(a, m, n, lda, batch),
        r.vector(s, batch * min(m, n), r.real).reshape(batch, min(m, n)),
        r.matrix(u, m, m, ldu, batch),
        r.matrix(v, n, n, ldv, batch),
    )
    r.vector(info, batch, "s32")[...] = parts.run("A" if job else "N", is_adjoint=False)


Function = Callable[..., Any]
_REAL, _COMPLEX, _ALL = "sd", "cz", "sdcz"
_FUNCTIONS: Mapping[str, tuple[str, Function, Function]] = MappingProxyType(
    {
        "getrf": (_ALL, _getrf, _getrf_size),
        "geqrf": (_ALL, _geqrf, _geqrf_size),
        "orgqr": (_REAL, _orgqr, _orgqr_size),
        "ungqr": (_COMPLEX, _orgqr, _orgqr_size),
        "ormqr": (_REAL, _ormqr, _ormqr_size),
        "unmqr": (_COMPLEX, _ormqr, _ormqr_size),
        "syevd": (_REAL, _syevd, _syevd_size),
        "heevd": (_COMPLEX, _syevd, _syevd_size),
        "syevjBatched": (_REAL, _syevj_batched, _syevj_size),
        "heevjBatched": (_COMPLEX, _syevj_batched, _syevj_size),
        "gesvd": (_ALL, _gesvd, _gesvd_size),
        "gesvdj": (_ALL, _gesvdj, _gesvdj_size),
        "gesvdjBatched": (_ALL, _gesvdj_batched, _gesvdj_batched_size),
    }
)
NAMES: Mapping[str, tuple[str, Function]] = MappingProxyType(
    {
        f"{letter}{name}{suffix}": (letter, function)
        for name, (letters, run, size) in _FUNCTIONS.items()
        for letter in letters
        for suffix, function in (("", run), ("_bufferSize", size))
    }
)
"""Functions of the module, each with the letter of its type."""


class EmulatedCusolver:
    """The module, on one memory.

    Args:
        memory: what addresses point to.
    """

    def __init__(self, memory: CallMemory) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Function:
        if name not in NAMES:
            raise AttributeError(f"cuSOLVER has no {name}")
        letter, function = NAMES[name]
        routine = _Routine(self._memory, name, *_TYPES[letter])
        return partial(_called, routine, function)

    def createSyevjInfo(self) -> int:
        """Options of Jacobi's method."""
        return _OPTIONS

    def createGesvdjInfo(self) -> int:
        """Options of Jacobi's method."""
        return _OPTIONS

    def destroySyevjInfo(self, options: int) -> None:
        """Frees options."""

    def destroyGesvdjInfo(self, options: int) -> None:
        """Frees options."""


def _called(routine: _Routine, function: Function, handle: int, *arguments: int) -> Any:
    routine.check_handle(handle)
    return function(routine, *arguments)
