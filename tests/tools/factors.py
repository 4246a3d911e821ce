"""Checks factors of matrices by what defines them, as closely as a stable algorithm fulfils it.

Factors that two algorithms found are not compared element by element. Both are exact for matrices
within ``p eps norm(A)`` of A, where p grows with the size only (backward stability). So singular
values, and eigenvalues of Hermitian matrices, agree that closely (Weyl). Vectors agree to ``p eps
norm(A) / gap`` only, gap being the distance to the next value (Davis and Kahan, Wedin); factors of
LU and QR to ``p eps cond(A)``. Where in that range they are depends on the order of sums, hence on
the kernels that a BLAS picks for the processor. The residual and the distance from orthonormal do
not, and by these theorems they bound how far vectors are from right ones.

Stacks of matrices are ``[..., m, n]``; matrices with NaN or infinities are left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

RATIO = 30
"""Most units of ``size eps norm(A)`` that a residual may have. It is the threshold of LAPACK's own
tests (LAPACK Working Note 41, "Installation Guide", section 6; ``testing/*.in``)."""


def adjoint(x: Any) -> Any:
    """Conjugate transpose."""
    return np.conj(x).swapaxes(-1, -2)


def wide(x: Any) -> Any:
    """In f64 or c128."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def limit(dtype: Any, *dims: int) -> float:
    """The largest residual of matrices of norm 1 with these dimensions."""
    return RATIO * max(1, *dims) * float(np.finfo(dtype).eps)


def norm(x: Any) -> Any:
    """The largest sum of a column's magnitudes, per matrix of a stack."""
    return np.abs(wide(x)).sum(-2).max(-1, initial=0)


def assert_product(made: Any, a: Any) -> None:
    """``made``, a product of factors, is the stack ``a``."""
    assert made.shape == a.shape
    error, most = norm(wide(made) - wide(a)), limit(a.dtype, *a.shape[-2:]) * norm(a)
    assert (error <= most).all(), f"residuals {error}, more than {most}"


def assert_orthonormal(q: Any) -> None:
    """The columns of each matrix are orthonormal."""
    error = norm(adjoint(wide(q)) @ wide(q) - np.eye(q.shape[-1]))
    most = limit(q.dtype, q.shape[-2])
    assert (error <= most).all(), f"{error} from orthonormal, more than {most}"


def assert_values(found: Any, wanted: Any, size: int) -> None:
    """Singular values, or eigenvalues of Hermitian matrices, of two stable algorithms.

    Args:
        found: ``[..., k]``, in order.
        wanted: the same from another algorithm, at least as precise.
        size: the larger dimension of the matrices.
    """
    largest = np.abs(wanted).max(-1, keepdims=True, initial=0)
    error, most = np.abs(wide(found) - wide(wanted)), 2 * limit(found.dtype, size) * largest
    assert (error <= most).all(), f"differences {error}, more than {most}"


def assert_svd(a: Any, u: Any, s: Any, vt: Any) -> None:
    """``a = u s vt``; bases thin or whole."""
    k = s.shape[-1]
    assert (s >= 0).all() and (s[..., :-1] >= s[..., 1:]).all()
    assert_values(s, np.linalg.svd(wide(a), compute_uv=False), max(a.shape[-2:]))
    assert_product((wide(u)[..., :k] * s[..., None, :]) @ wide(vt)[..., :k, :], a)
    assert_orthonormal(u)
    assert_orthonormal(adjoint(vt))


def assert_eigh(a: Any, w: Any, vectors: Any) -> None:
    """``a vectors = vectors w``, for Hermitian matrices, values ascending."""
    assert (w[..., :-1] <= w[..., 1:]).all()
    assert_values(w, np.linalg.eigvalsh(wide(a)), a.shape[-1])
    assert_product((wide(vectors) * w[..., None, :]) @ adjoint(wide(vectors)), a)
    assert_orthonormal(vectors)


def assert_lu(a: Any, packed: Any, pivots: Any) -> None:
    """``l u`` is ``a`` with rows exchanged, as LAPACK stores both, ``pivots`` counted from 1."""
    rows, k = a.shape[-2], min(a.shape[-2:])
    lower = np.tril(wide(packed)[..., :k], -1)
    # Of complex numbers LAPACK takes the largest sum of the two parts' magnitudes as pivot.
    assert (np.abs(lower) <= np.sqrt(2) * (1 + limit(a.dtype, rows))).all()
    made = (lower + np.eye(rows, k)) @ np.triu(wide(packed)[..., :k, :])
    assert_product(made, exchanged(a, pivots))


def exchanged(a: Any, pivots: Any) -> Any:
    """``a`` with the rows exchanged that ``pivots`` names, from the first, counted from 1."""
    moved = a.reshape(-1, *a.shape[-2:]).copy()
    for matrix, swaps in zip(moved, pivots.reshape(len(moved), -1), strict=True):
        for row, other in enumerate(swaps - 1):
            matrix[[row, other]] = matrix[[other, row]]
    return moved.reshape(a.shape)


def assert_qr(a: Any, packed: Any, q: Any) -> None:
    """``q r = a`` with orthonormal columns, r being the upper triangle of ``packed``."""
    assert_product(wide(q) @ np.triu(wide(packed)[..., : q.shape[-1], :]), a)
    assert_orthonormal(q)


def assert_solution(a: Any, x: Any, b: Any) -> None:
    """``a x = b``, to what a stable solver leaves of the two sides, however ill a is conditioned.

    The solution itself is only as close to another one as ``eps cond(a)``.
    """
    error = norm(wide(a) @ wide(x) - wide(b))
    most = limit(x.dtype, a.shape[-1]) * (norm(a) * norm(x) + norm(b))
    assert (error <= most).all(), f"residuals {error}, more than {most}"


def reflected(packed: Any, scales: Any, offset: int) -> Any:
    """Q of reflectors that begin ``offset`` rows below the diagonal, multiplied out.

    Args:
        packed: ``[..., n, n]``; below its diagonals the vectors, as LAPACK stores them.
        scales: ``[..., count]``.
        offset: 0 for QR, 1 for Hessenberg and tridiagonal forms.
    """
    n = packed.shape[-2]
    q = np.broadcast_to(np.eye(n), (*packed.shape[:-2], n, n))
    for k in range(scales.shape[-1]):
        v = np.zeros((*packed.shape[:-1], 1), wide(packed).dtype)
        v[..., k + offset, 0] = 1
        v[..., k + offset + 1 :, 0] = packed[..., k + offset + 1 :, k]
        q = q @ (np.eye(n) - scales[..., k, None, None] * (v @ adjoint(v)))
    return q
