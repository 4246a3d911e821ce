"""LU and QR factorisations of stacks of matrices, in LAPACK's packed forms.

Every function takes ``[batch, rows, columns]`` of f64 or c128 and works column by column over the
whole batch. Results follow the unblocked routines of LAPACK (getf2, geqr2, org2r, orm2r), so signs
and pivots agree with it up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.hlo.literal import Array


def lu_factor(matrix: Array) -> tuple[Array, Array, Array]:
    """P A = L U with partial pivoting (getrf).

    Returns:
        L below the diagonal (unit) and U from it on, packed; the row swapped with row i, from 0,
        s32 ``[batch, min(m, n)]``; the number (from 1) of the first zero pivot or 0, s32
        ``[batch]``.
    """
    lu = np.array(matrix)
    batch, rows, columns = lu.shape
    count = min(rows, columns)
    pivots = np.zeros((batch, count), np.int32)
    info = np.zeros(batch, np.int32)
    every = np.arange(batch)
    for k in range(count):
        chosen = k + np.argmax(_size(lu[:, k:, k]), axis=1)
        pivots[:, k] = chosen
        lu[every, k], lu[every, chosen] = lu[every, chosen], lu[every, k]
        pivot = lu[:, k, k]
        zero = pivot == 0
        info = np.where((info == 0) & zero, np.int32(k + 1), info)
        factors = lu[:, k + 1 :, k] / np.where(zero, 1, pivot)[:, None]
        lu[:, k + 1 :, k] = factors
        lu[:, k + 1 :, k + 1 :] -= factors[:, :, None] * lu[:, k, None, k + 1 :]
    return lu, pivots, info


def _size(values: Array) -> Array:
    """LAPACK's measure of size when it looks for a pivot: |re| + |im|."""
    return np.abs(np.real(values)) + np.abs(np.imag(values))


def permutation_of(pivots: Array, rows: int) -> Array:
    """The row permutation that a sequence of swaps makes, s32 ``[batch, rows]``."""
    order = np.broadcast_to(np.arange(rows, dtype=np.int32), (len(pivots), rows)).copy()
    every = np.arange(len(pivots))
    for k in range(pivots.shape[1]):
        chosen = pivots[:, k]
        order[every, k], order[every, chosen] = order[every, chosen], order[every, k]
    return order


def reflector(x: Array) -> tuple[Array, Array, Array]:
    """The Householder reflector that turns each vector into a multiple of e0 (larfg).

    Args:
        x: ``[batch, n]``.

    Returns:
        beta, tau and v (with v[0] = 1), such that (1 - tau v v*)* x = beta e0.
    """
    scale = _scale_of(x)
    near = x / scale[:, None]
    alpha = near[:, 0]
    plain = ~x[:, 1:].any(1) & (np.imag(alpha) == 0)
    norm = np.hypot(np.abs(alpha), lengths(near[:, 1:]))
    beta: Any = np.where(plain, np.real(alpha), -np.copysign(norm, np.real(alpha)))
    safe = np.where(plain, 1, beta)
    tau = np.where(plain, 0, (safe - alpha) / safe)
    v = near / np.where(plain, 1, alpha - beta)[:, None]
    v[:, 0] = 1
    return (beta * scale).astype(x.dtype), tau.astype(x.dtype), v


def _scale_of(x: Array) -> Array:
    """Per vector ``[batch, n]``, the largest element, or where it is no normal number one near."""
    largest = np.abs(x).max(1, initial=0)
    limits = np.finfo(largest.dtype)
    return np.where(largest > 0, np.clip(largest, limits.tiny, limits.max), 1)


def lengths(x: Array) -> Array:
    """Euclidean length of each vector ``[batch, n]``; no square overflows or vanishes (nrm2)."""
    scale = _scale_of(x)
    return np.linalg.norm(x / scale[:, None], axis=1) * scale


def reflect(matrix: Array, v: Array, tau: Array) -> Array:
    """(1 - tau v v*) A, for ``[batch, n, k]``."""
    along = np.matmul(v.conj()[:, None, :], matrix)
    return matrix - tau[:, None, None] * v[:, :, None] * along


def qr_factor(matrix: Array) -> tuple[Array, Array]:
    """A = Q R (geqrf).

    Returns:
        R from the diagonal on and the reflectors' vectors below it, packed; their scales tau.
    """
    a = np.array(matrix)
    count = min(a.shape[1:])
    taus = np.zeros((a.shape[0], count), a.dtype)
    for k in range(count):
        _reduce_column(a, taus, k)
    return a, taus


def _reduce_column(a: Array, taus: Array, k: int) -> None:
    beta, tau, v = reflector(a[:, k:, k])
    a[:, k:, k + 1 :] = reflect(a[:, k:, k + 1 :], v, tau.conj())
    a[:, k + 1 :, k] = v[:, 1:]
    a[:, k, k] = beta
    taus[:, k] = tau


def pivoted_qr_factor(matrix: Array, fixed: Array) -> tuple[Array, Array, Array]:
    """A P = Q R, the longest remaining column first (geqp3).

    Args:
        matrix: ``[batch, m, n]``.
        fixed: nonzero for columns that go to the front, in their order, s32 ``[batch, n]``.

    Returns:
        Packed factors, column numbers from 1 (s32), and tau.
    """
    batch, _, columns = matrix.shape
    front = np.argsort(fixed == 0, axis=1, kind="stable")
    a = np.take_along_axis(matrix, front[:, None, :], 2)
    order = front.astype(np.int32) + 1
    held = np.count_nonzero(fixed, axis=1)
    count = min(a.shape[1:])
    taus = np.zeros((batch, count), a.dtype)
    every = np.arange(batch)
    for k in range(count):
        rest = a[:, k:, k:].swapaxes(1, 2)
        sizes = lengths(rest.reshape(-1, rest.shape[2])).reshape(rest.shape[:2])
        chosen = k + np.where(held > k, 0, np.argmax(sizes, axis=1))
        a[every, :, k], a[every, :, chosen] = a[every, :, chosen], a[every, :, k]
        order[every, k], order[every, chosen] = order[every, chosen], order[every, k]
        _reduce_column(a, taus, k)
    return a, order, taus


def packed_vectors(a: Array, k: int) -> Array:
    """The vector of reflector k in packed form: zeros, one, and what is below."""
    v = np.zeros(a.shape[:2], a.dtype)
    v[:, k + 1 :] = a[:, k + 1 :, k]
    v[:, k] = 1
    return v


def householder_product(a: Array, taus: Array) -> Array:
    """The first columns of Q = H0 H1 ... from its packed reflectors (orgqr, ungqr)."""
    batch, rows, columns = a.shape
    q = np.broadcast_to(np.eye(rows, columns, dtype=a.dtype), (batch, rows, columns)).copy()
    for k in reversed(range(taus.shape[1])):
        q = reflect(q, packed_vectors(a, k), taus[:, k])
    return q


def apply_q(a: Array, taus: Array, c: Array, *, left: bool, transpose: bool) -> Array:
    """Q C, Q* C, C Q or C Q*, for Q packed in ``a`` (ormqr, unmqr)."""
    if not left:
        swapped = c.conj().swapaxes(1, 2)
        turned = apply_q(a, taus, swapped, left=True, transpose=not transpose)
        return turned.conj().swapaxes(1, 2)
    order = range(taus.shape[1])
    for k in order if transpose else reversed(order):
        c = reflect(c, packed_vectors(a, k), taus[:, k].conj() if transpose else taus[:, k])
    return c
