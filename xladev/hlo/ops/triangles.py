"""Cholesky factors and triangular systems, column by column over whole batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from xladev.hlo.literal import Array


def adjoint(matrix: Array) -> Array:
    """Conjugate transpose of the last two dimensions."""
    return np.conj(matrix).swapaxes(-1, -2)


def cholesky_lower(matrix: Array) -> Array:
    """Lower factor L with L L* = A, reading only A's lower triangle.

    Args:
        matrix: ``[..., n, n]``, f32, f64 or c128.

    Returns:
        The factor, zero above the diagonal; all NaN in the triangle of a matrix that is not
        positive definite.
    """
    factor, failed = cholesky_columns(matrix)
    lower = np.tril(np.ones(matrix.shape[-2:], np.bool_))
    return np.where((failed > 0)[..., None, None] & lower, np.nan, factor).astype(matrix.dtype)


def cholesky_columns(matrix: Array) -> tuple[Array, Array]:
    """As `cholesky_lower`, and the number of the first column (from 1) that failed, or 0."""
    n = matrix.shape[-1]
    factor = np.zeros_like(matrix)
    failed = np.zeros(matrix.shape[:-2], np.int32)
    for j in range(n):
        row = factor[..., j, :j]
        pivot: Any = np.real(matrix[..., j, j]) - np.sum(np.square(np.abs(row)), axis=-1)
        failed = np.where((failed == 0) & ~(pivot > 0), np.int32(j + 1), failed)
        root = np.sqrt(np.where(pivot > 0, pivot, 1))
        factor[..., j, j] = root
        below = matrix[..., j + 1 :, j] - _times(factor[..., j + 1 :, :j], row.conj())
        factor[..., j + 1 :, j] = below / root[..., None]
    return factor, failed


def _times(matrix: Array, vector: Array) -> Array:
    return np.matmul(matrix, vector[..., None])[..., 0]


def solve_triangular(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Array:
    """x with a x = b, by substitution.

    Args:
        a: ``[..., n, n]``, triangular.
        b: ``[..., n, k]``.
        lower: substitute from the first row on rather than from the last.
        unit_diagonal: take the diagonal of ``a`` as ones.
    """
    n = a.shape[-1]
    x = np.array(b)
    for i in range(n) if lower else range(n - 1, -1, -1):
        known = slice(0, i) if lower else slice(i + 1, n)
        done = np.matmul(a[..., i : i + 1, known], x[..., known, :])
        rest = x[..., i : i + 1, :] - done
        x[..., i : i + 1, :] = rest if unit_diagonal else rest / a[..., i : i + 1, i : i + 1]
    return x
