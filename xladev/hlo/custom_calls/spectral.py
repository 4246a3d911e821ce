"""Singular values and eigenvalues of stacks of matrices, through NumPy.

A matrix on which the iteration fails (NaN or infinity in it) gives NaN and an info of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xladev.hlo.literal import Array


def _each(
    function: Callable[[Array], Sequence[Array]], matrices: Array, empty: Sequence[Array]
) -> tuple[tuple[Array, ...], Array]:
    """Calls a function per matrix; gives its stacked results, and 1 for each that failed."""
    results: list[list[Array]] = [[] for _ in empty]
    info = np.zeros(len(matrices), np.int32)
    for i, matrix in enumerate(matrices):
        try:
            if not np.isfinite(matrix).all():
                raise np.linalg.LinAlgError
            found: Sequence[Array] = function(matrix)
        except np.linalg.LinAlgError:
            found, info[i] = [np.full_like(e, np.nan) for e in empty], 1
        for result, part in zip(results, found, strict=True):
            result.append(part)
    stacked = [
        np.stack(r) if r else np.zeros((0, *e.shape), e.dtype)
        for r, e in zip(results, empty, strict=True)
    ]
    return tuple(stacked), info


def singular_values(matrices: Array, mode: str) -> tuple[tuple[Array, Array, Array], Array]:
    """Singular values, left vectors and right vectors (transposed), and info (gesdd, gesvd).

    Args:
        matrices: ``[batch, m, n]``.
        mode: ``A`` all vectors, ``S`` the first min(m, n), ``N`` none (zeros take their place).
    """
    _, m, n = matrices.shape
    k = min(m, n)
    full = mode != "S"
    real = np.real(matrices).dtype
    empty = [
        np.zeros(k, real),
        np.zeros((m, m if full else k), matrices.dtype),
        np.zeros((n if full else k, n), matrices.dtype),
    ]

    def decompose(matrix: Array) -> Sequence[Array]:
        if mode == "N":
            return [np.linalg.svd(matrix, compute_uv=False), empty[1], empty[2]]
        u, s, vt = np.linalg.svd(matrix, full_matrices=full)
        return [s, u, vt]

    (s, u, vt), info = _each(decompose, matrices, empty)
    return (s, u, vt), info


def hermitian_eigen(matrices: Array, *, lower: bool) -> tuple[Array, Array, Array]:
    """Eigenvectors, ascending eigenvalues and info of Hermitian matrices (syevd, heevd)."""
    n = matrices.shape[1]
    empty = [np.zeros(n, np.real(matrices).dtype), np.zeros((n, n), matrices.dtype)]

    def decompose(matrix: Array) -> Sequence[Array]:
        values, vectors = np.linalg.eigh(matrix, "L" if lower else "U")
        return [values, vectors]

    (values, vectors), info = _each(decompose, matrices, empty)
    return vectors, values, info


def eigen(matrices: Array, *, left: bool) -> tuple[Array, Array, Array, Array]:
    """Eigenvalues, left and right eigenvectors and info of general matrices (geev).

    Vectors are c128 columns of norm 1 whose largest component is real.
    """
    n = matrices.shape[1]
    empty = [np.zeros(n, np.complex128)] + [np.zeros((n, n), np.complex128)] * 2

    def decompose(matrix: Array) -> Sequence[Array]:
        if not n:
            return empty
        values, right = np.linalg.eig(matrix)
        found = _left_vectors(matrix, values) if left else empty[1]
        return [values.astype(np.complex128), found, _normalised(right)]

    (values, lefts, rights), info = _each(decompose, matrices, empty)
    return values, lefts, rights, info


def _left_vectors(matrix: Array, values: Array) -> Array:
    """Eigenvectors of the conjugate transpose, each beside the eigenvalue it belongs to."""
    conjugates, vectors = np.linalg.eig(matrix.conj().T)
    free = list(range(len(values)))
    order: list[int] = []
    for value in values:
        nearest: Any = min(free, key=lambda i: abs(conjugates[i] - np.conj(value)))
        free.remove(nearest)
        order.append(nearest)
    return _normalised(vectors[:, order])


def _normalised(vectors: Array) -> Array:
    vectors = vectors.astype(np.complex128)
    vectors = vectors / np.linalg.norm(vectors, axis=0)
    largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=0)[None], 0)
    return vectors * (np.conj(largest) / np.abs(largest))
