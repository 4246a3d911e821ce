"""Emulated cuSOLVER: factors by columns, and the triangle that the library does not define."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from xladev.codegen.simt.emulation.host_threads import PATTERN
from xladev.platforms.cuda.driver.emulated_calls import Array, Buffers, Emulation
from xladev.platforms.cuda.driver.emulated_cusolver import HANDLE, EmulatedCusolver
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.driver.solver_steps import Solver, enqueue_steps
from xladev.platforms.cuda.libraries.calls import Cholesky
from xladev.platforms.cuda.libraries.solver_calls import (
    ITEM_NBYTES,
    Eigenvectors,
    LuFactorsCall,
    QMatrix,
    QProduct,
    QrFactors,
    SingularValues,
    SolverCall,
)

INVALID = "CUSOLVER_STATUS_INVALID_VALUE"


def _check(call: Cholesky) -> None:
    if call.dtype not in ("f32", "f64", "c64", "c128"):
        raise LibraryError("cusolverDnXpotrf", "CUSOLVER_STATUS_NOT_SUPPORTED", call.dtype)
    if min(call.order, call.batch) < 1:
        raise LibraryError("cusolverDnXpotrf", INVALID, "there is nothing to factor")


def _run(call: Cholesky, buffers: Buffers) -> None:
    n = call.order
    a = buffers.matrices(0, call.dtype, call.batch, n, n, n, n * n)
    factors = buffers.matrices(1, call.dtype, call.batch, n, n, n, n * n)
    info = buffers.array(2, "s32", call.batch)
    lower = np.triu(a).swapaxes(1, 2).conj() if call.upper else np.tril(a)
    found, info[:] = _factored(np.tril(lower))
    made = found.swapaxes(1, 2).conj() if call.upper else found
    kept = np.triu(np.ones((n, n), bool)) if call.upper else np.tril(np.ones((n, n), bool))
    spoiled = np.frombuffer(bytes([PATTERN]) * made.itemsize, made.dtype)[0]
    factors[...] = np.where(kept, made, spoiled)


def _factored(lower: Array) -> tuple[Array, Array]:
    """Factors L of L L* by columns; the number from 1 of the first minor that is not positive."""
    a = np.array(lower)
    info = np.zeros(len(a), np.int32)
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            pivot = a[:, k, k].real
            bad = ~(pivot > 0) & (info == 0)
            info[bad] = k + 1
            a[:, k, k] = np.sqrt(pivot)
            a[:, k + 1 :, k] /= a[:, k, k, None]
            column = a[:, k + 1 :, k]
            a[:, k + 1 :, k + 1 :] -= column[:, :, None] * column[:, None, :].conj()
    return a, info


CHOLESKY = Emulation("cusolverDnXpotrf", INVALID, lambda call: 3, _check, _run)

_BUFFERS: Mapping[type[SolverCall], int] = MappingProxyType(
    {LuFactorsCall: 4, QrFactors: 3, QMatrix: 3, QProduct: 4, Eigenvectors: 4, SingularValues: 5}
)


def _check_steps(call: SolverCall) -> None:
    function = f"cusolverDn {type(call).__name__}"
    if call.dtype not in ITEM_NBYTES:
        raise LibraryError(function, "CUSOLVER_STATUS_NOT_SUPPORTED", call.dtype)
    order = (call.order,) if isinstance(call, Eigenvectors) else (call.rows, call.columns)
    if min(*order, call.batch) < 1:
        raise LibraryError(function, INVALID, "there is nothing to factor")


def _run_steps(call: SolverCall, buffers: Buffers) -> None:
    memory = buffers.memory

    def copy(target: int, source: int, nbytes: int) -> None:
        memory.bytes_at(target, nbytes)[:] = memory.bytes_at(source, nbytes)

    def room(address: int, there: int, wanted: int) -> int:
        if there < wanted:
            why = f"it wants {wanted} bytes, and has {there}"
            raise LibraryError(buffers.function, "CUSOLVER_STATUS_ALLOC_FAILED", why)
        return address

    solver = Solver(EmulatedCusolver(memory), HANDLE, copy, room)
    enqueue_steps(solver, call, buffers.addresses)


FACTORISATION = Emulation(
    "cusolverDn", INVALID, lambda call: _BUFFERS[type(call)], _check_steps, _run_steps
)
