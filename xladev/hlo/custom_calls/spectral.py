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


def schur(matrices: Array) -> tuple[Array, Array, Array, Array]:
    """A = Q T Q*: T, Q, eigenvalues (complex) and info (gees).

    T is triangular; of real matrices, it has blocks of two rows with equal diagonal elements for
    pairs of eigenvalues.
    """
    n = matrices.shape[1]
    empty = [np.zeros((n, n), matrices.dtype)] * 2 + [np.zeros(n, np.complex128)]
    (t, q, values), info = _each(_schur, matrices, empty)
    return t, q, values, info


def _schur(matrix: Array) -> Sequence[Array]:
    """Splits off one eigenvector (or the plane of a pair) after the other."""
    n = len(matrix)
    t, q = np.array(matrix), np.eye(n, dtype=matrix.dtype)
    values = np.zeros(n, np.complex128)
    at = 0
    while at < n:
        found, vectors = np.linalg.eig(t[at:, at:])
        basis = _invariant(vectors[:, :1], found[0], np.iscomplexobj(matrix))
        size = basis.shape[1]
        start = np.concatenate([basis, np.eye(n - at)], 1)
        _turn(t, q, np.linalg.qr(start)[0], at)
        if size == 2:
            _turn(t, q, _levelling(t[at : at + 2, at : at + 2]), at)
            t[at, at] = t[at + 1, at + 1] = (t[at, at] + t[at + 1, at + 1]) / 2
        t[at + size :, at : at + size] = 0
        values[at : at + size] = _of_block(t[at : at + size, at : at + size])
        at += size
    return [t, q, values]


def _invariant(vector: Array, value: Any, is_complex: bool) -> Array:
    """The eigenvector, or for a pair of a real matrix two real vectors of its plane."""
    if is_complex:
        return vector
    if np.imag(value) == 0:
        return np.real(vector)
    return np.concatenate([np.real(vector), np.imag(vector)], 1)


def _turn(t: Array, q: Array, small: Array, at: int) -> None:
    """Applies a unitary matrix of the rows from ``at`` on to T and Q, in place."""
    part = slice(at, at + len(small))
    t[part] = small.conj().T @ t[part]
    t[:, part] = t[:, part] @ small
    q[:, part] = q[:, part] @ small


def _levelling(block: Array) -> Array:
    """The rotation after which both diagonal elements of a 2 x 2 block are equal."""
    angle = 0.5 * np.arctan2(block[1, 1] - block[0, 0], block[0, 1] + block[1, 0])
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def _of_block(block: Array) -> Array:
    """Eigenvalues of a diagonal block; of a pair, the one with positive imaginary part first."""
    if len(block) == 1:
        return block[0]
    imaginary = np.sqrt(np.abs(block[0, 1])) * np.sqrt(np.abs(block[1, 0]))
    return block[0, 0] + np.array([1j, -1j]) * imaginary
