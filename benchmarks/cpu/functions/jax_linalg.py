"""Linear algebra in JAX: factorisations, what is made of them, and gradients through them.

What libraries may choose differently does not show: vectors come as absolute values, eigenvalues
in order, and of what has another order for each order of eigenvalues only sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from benchmarks.cpu.functions.inputs import Parameters

Function = Callable[..., Any]


def _vectors(*parts: Any) -> tuple[Any, ...]:
    return tuple(jnp.abs(part) for part in parts)


def _eigh(a: Any) -> tuple[Any, ...]:
    values, vectors = jnp.linalg.eigh(a)
    return values, *_vectors(vectors)


def _svd(a: Any) -> tuple[Any, ...]:
    left, values, right = jnp.linalg.svd(a, full_matrices=False)
    return values, *_vectors(left, right)


def _eig(a: Any) -> tuple[Any, ...]:
    values, vectors = jnp.linalg.eig(a)
    return jnp.sort(jnp.abs(values)), jnp.abs(vectors).sum()


def _schur(a: Any) -> tuple[Any, ...]:
    return tuple((part**2).sum() for part in lax.linalg.schur(a))


def _lu(a: Any) -> tuple[Any, ...]:
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots


def _log_determinant(a: Any) -> Any:
    factor = jnp.linalg.cholesky(a)
    return 2 * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum()


def _through_eigh(a: Any) -> Any:
    values, vectors = jnp.linalg.eigh(a)
    return (jnp.tanh(values) * (vectors**2).sum(0)).sum() + (vectors[0] ** 4).sum()


def _through_svd(a: Any) -> Any:
    left, values, right = jnp.linalg.svd(a, full_matrices=False)
    return jnp.log1p(values).sum() + (left[0] ** 4).sum() + (right[:, 0] ** 4).sum()


def _tridiagonal(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    return lax.linalg.tridiagonal_solve(lower, diagonal + 4, upper, b)


FUNCTIONS: Mapping[str, Callable[[Parameters], Function]] = {
    "cholesky": lambda p: jnp.linalg.cholesky,
    "lu": lambda p: _lu,
    "qr": lambda p: lambda a: _vectors(*jnp.linalg.qr(a)),
    "eigh": lambda p: _eigh,
    "svd": lambda p: _svd,
    "eig": lambda p: _eig,
    "hessenberg": lambda p: lambda a: _vectors(*lax.linalg.hessenberg(a)),
    "schur": lambda p: _schur,
    "tridiagonal_solve": lambda p: _tridiagonal,
    "triangular_solve": lambda p: lambda a, b: jsl.solve_triangular(a, b, lower=True),
    "solve": lambda p: jnp.linalg.solve,
    "lstsq": lambda p: lambda a, b: jnp.linalg.lstsq(a, b)[0],
    "inverse": lambda p: jnp.linalg.inv,
    "determinant": lambda p: jnp.linalg.det,
    "expm": lambda p: jsl.expm,
    "cholesky_backward": lambda p: jax.value_and_grad(_log_determinant),
    "eigh_backward": lambda p: jax.value_and_grad(_through_eigh),
    "svd_backward": lambda p: jax.value_and_grad(_through_svd),
}
"""By kind of row."""
