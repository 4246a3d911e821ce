"""Reductions of square matrices to Hessenberg and tridiagonal form, and tridiagonal systems.

As `factor`: ``[batch, n, n]`` of f64 or c128, packed as LAPACK's unblocked routines pack.
"""

from __future__ import annotations

import numpy as np

from xladev.hlo.custom_calls.factor import reflect, reflector
from xladev.hlo.literal import Array


def hessenberg(matrix: Array, low: int, high: int) -> tuple[Array, Array]:
    """Q* A Q = H with zeros below the first subdiagonal (gehrd).

    Args:
        matrix: ``[batch, n, n]``.
        low, high: first and last row (from 1) of the block that is not triangular already.

    Returns:
        H and the reflectors' vectors below its subdiagonal, packed; their scales tau.
    """
    a = np.array(matrix)
    batch, n, _ = a.shape
    taus = np.zeros((batch, max(n - 1, 0)), a.dtype)
    for k in range(low - 1, high - 1):
        beta, tau, v = reflector(a[:, k + 1 : high, k])
        right = a[:, :high, k + 1 : high].conj().swapaxes(1, 2)
        a[:, :high, k + 1 : high] = reflect(right, v, tau.conj()).conj().swapaxes(1, 2)
        a[:, k + 1 : high, k + 1 :] = reflect(a[:, k + 1 : high, k + 1 :], v, tau.conj())
        a[:, k + 2 : high, k] = v[:, 1:]
        a[:, k + 1, k] = beta
        taus[:, k] = tau
    return a, taus


def tridiagonal(matrix: Array, *, lower: bool) -> tuple[Array, Array, Array, Array]:
    """Q* A Q = T for Hermitian A, of which one triangle is read (sytrd, hetrd).

    Returns:
        The packed matrix, the diagonal and the off-diagonal of T (real), and tau.
    """
    if not lower:
        return _tridiagonal_upper(matrix)
    a = np.array(matrix)
    n = a.shape[1]
    taus = np.zeros((a.shape[0], max(n - 1, 0)), a.dtype)
    for k in range(n - 1):
        beta, tau, v = reflector(a[:, k + 1 :, k])
        block = _whole(a[:, k + 1 :, k + 1 :], lower=True)
        a[:, k + 1 :, k + 1 :] = _two_sided(block, v, tau)
        a[:, k + 2 :, k] = v[:, 1:]
        a[:, k + 1, k] = beta
        taus[:, k] = tau
    upper = np.triu(np.ones((n, n), np.bool_), 1)
    a = np.where(upper, matrix, a)
    off = np.diagonal(a, -1, 1, 2)
    return a, np.real(np.diagonal(a, 0, 1, 2)), np.real(off), taus


def _tridiagonal_upper(matrix: Array) -> tuple[Array, Array, Array, Array]:
    """As for the lower triangle, from the last column on."""
    a = np.array(matrix)
    n = a.shape[1]
    taus = np.zeros((a.shape[0], max(n - 1, 0)), a.dtype)
    for k in reversed(range(n - 1)):
        beta, tau, v = reflector(a[:, k::-1, k + 1])
        v = v[:, ::-1]
        block = _whole(a[:, : k + 1, : k + 1], lower=False)
        a[:, : k + 1, : k + 1] = _two_sided(block, v, tau)
        a[:, :k, k + 1] = v[:, :-1]
        a[:, k, k + 1] = beta
        taus[:, k] = tau
    strictly_lower = np.tril(np.ones((n, n), np.bool_), -1)
    a = np.where(strictly_lower, matrix, a)
    off = np.diagonal(a, 1, 1, 2)
    return a, np.real(np.diagonal(a, 0, 1, 2)), np.real(off), taus


def _whole(block: Array, *, lower: bool) -> Array:
    """The Hermitian matrix of which one triangle is given."""
    half = np.tril(block, -1) if lower else np.triu(block, 1)
    diagonal = np.real(np.diagonal(block, 0, 1, 2))[:, :, None] * np.eye(block.shape[1])
    return half + half.conj().swapaxes(1, 2) + diagonal


def _two_sided(block: Array, v: Array, tau: Array) -> Array:
    """H* A H, with H = 1 - tau v v*."""
    left = reflect(block, v, tau.conj())
    return reflect(left.conj().swapaxes(1, 2), v, tau.conj()).conj().swapaxes(1, 2)


def solve_tridiagonal(
    below: Array, diagonal: Array, above: Array, b: Array, *, eps: float | None = None
) -> tuple[Array, Array]:
    """x with T x = b, by elimination with row exchanges (gtsv).

    Args:
        below, diagonal, above: ``[batch, n]``; ``below[0]`` and ``above[n - 1]`` are not read.
        b: ``[batch, n, k]``.
        eps: where given, pivots smaller than this part of U's largest element become that large,
            so that singular systems have a solution too.

    Returns:
        x, and the number (from 1) of the first zero pivot or 0, s32 ``[batch]``.
    """
    batch, n = diagonal.shape
    rows = np.zeros((batch, n, 3), np.result_type(diagonal, b))
    rows[:, :, 0], rows[:, :, 1] = diagonal, above
    rows[:, n - 1 :, 1] = 0
    x = np.array(b, rows.dtype)
    info = np.zeros(batch, np.int32)
    for k in range(n - 1):
        following = np.stack([below[:, k + 1], rows[:, k + 1, 0], rows[:, k + 1, 1]], 1)
        swap = np.abs(following[:, 0]) > np.abs(rows[:, k, 0])
        upper = np.where(swap[:, None], following, rows[:, k])
        lower = np.where(swap[:, None], rows[:, k], following)
        first = np.where(swap[:, None], x[:, k + 1], x[:, k])
        second = np.where(swap[:, None], x[:, k], x[:, k + 1])
        info = np.where((info == 0) & (upper[:, 0] == 0), np.int32(k + 1), info)
        pivot = upper[:, 0] if eps is None else np.where(upper[:, 0] == 0, 1, upper[:, 0])
        factor = (lower[:, 0] / pivot)[:, None]
        rows[:, k], x[:, k] = upper, first
        rows[:, k + 1, :2] = (lower - factor * upper)[:, 1:]
        x[:, k + 1] = second - factor * first
    if n:
        info = np.where((info == 0) & (rows[:, n - 1, 0] == 0), np.int32(n), info)
    if n and eps is not None:
        rows[:, :, 0] = _perturbed(rows, eps)
    for k in reversed(range(n)):
        for ahead in (1, 2):
            if k + ahead < n:
                x[:, k] -= rows[:, k, ahead, None] * x[:, k + ahead]
        x[:, k] /= rows[:, k, 0, None]
    return x, info


def _perturbed(rows: Array, eps: float) -> Array:
    """The pivots ``rows[:, :, 0]``, tiny ones moved away from zero."""
    least = eps * np.abs(rows).max((1, 2), keepdims=True)[:, :, 0]
    least = np.where(least == 0, eps, least)
    pivots = rows[:, :, 0]
    sizes = np.abs(pivots)
    towards = np.where(sizes == 0, 1, pivots / np.where(sizes == 0, 1, sizes))
    return np.where(sizes < least, towards * least, pivots)
