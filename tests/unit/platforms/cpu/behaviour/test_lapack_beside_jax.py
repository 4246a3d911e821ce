"""JAX's linear algebra on matrices that fail or nearly do, beside jaxlib's in a process of its own.

Which results are NaN must agree, and results of one kind: factors, pivots, eigenvalues. Signs and
bases that LAPACK leaves open are compared by what they make of the matrix.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import xladev

pytest.importorskip("jax")
pytest.importorskip("scipy")
pytestmark = pytest.mark.long

CHILD = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
jax.config.update("jax_enable_x64", True)
folder = sys.argv[1]
functions = {
    "cholesky": jnp.linalg.cholesky,
    "lu": lax.linalg.lu,
    "qr": jnp.linalg.qr,
    "eigvalsh": jnp.linalg.eigvalsh,
    "eigh": lambda a: (lambda v, w: jnp.abs(w))(*jnp.linalg.eigh(a)),
    "svdvals": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "svd": lambda a: jnp.isnan(jnp.linalg.svd(a)[0]),
    "eigvals": lambda a: jnp.isnan(jnp.linalg.eigvals(a)),
    "schur": lambda a: jnp.isnan(lax.linalg.schur(a)[0]),
    "hessenberg": lax.linalg.hessenberg,
    "tridiagonal": lambda a: lax.linalg.tridiagonal(a)[1:3],
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]),
}
with np.load(folder + "/stacks.npz") as stacks:
    for key, a in stacks.items():
        for name, function in functions.items():
            lowered = jax.jit(function).lower(a)
            proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
            open(f"{folder}/{name}.{key}.pb", "wb").write(proto)
            found = jax.tree.leaves(lowered.compile()(a))
            np.savez(f"{folder}/{name}.{key}.npz", **{str(n): x for n, x in enumerate(found)})
"""
NAMES = ("cholesky", "lu", "qr", "eigvalsh", "eigh", "svdvals", "svd", "eigvals", "schur",
         "hessenberg", "tridiagonal", "solve")  # fmt: skip
BATCHES = {"one": 5, "vectors": 20}
"""Fewer matrices than a vector has lanes, and more."""


def stack(count: int, dtype: type, rng: np.random.Generator) -> np.ndarray:
    """Symmetric matrices; some of the first five are bad, each in another way."""
    a = rng.normal(size=(count, 6, 6))
    if dtype in (np.complex64, np.complex128):
        a = a + 1j * rng.normal(size=a.shape)
    a = a + np.conj(np.swapaxes(a, 1, 2)) + 9 * np.eye(6)
    a[1, 2, 2] = np.nan
    a[2, 3, 3] = np.inf
    a[3, 4] = a[3, :, 4] = 0
    basis = np.linalg.qr(a[0])[0]
    a[4] = (basis * np.logspace(0, -15, 6)) @ np.conj(basis.T)
    return a.astype(dtype)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs and what jaxlib made of them."""
    made, rng = tmp_path_factory.mktemp("jax"), np.random.default_rng(0)
    kinds = {"s": np.float32, "d": np.float64, "z": np.complex128}
    stacks = {
        f"{letter}.{name}": stack(count, dtype, rng)
        for letter, dtype in kinds.items()
        for name, count in BATCHES.items()
    }
    np.savez(made / "stacks.npz", **stacks)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", CHILD, str(made)], env=environment, check=True,
                   timeout=500, capture_output=True)  # fmt: skip
    return made


def arrays(folder: Path, key: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What xladev and jaxlib gave, result by result."""
    with np.load(folder / "stacks.npz") as stacks:
        a = stacks[key.partition(".")[2]]
    got = xladev.compile(folder / f"{key}.pb", "cpu")(a)
    each = got if isinstance(got, tuple) else (got,)
    with np.load(folder / f"{key}.npz") as want:
        yield from ((x.numpy(), want[str(n)]) for n, x in enumerate(each))


TOLERANCES: Mapping[str, float] = {"s": 2e-4, "d": 1e-12, "z": 1e-12}
NOT_A_NUMBER, INFINITE, CONDITION = 1, 2, 4
"""The matrices of a stack that have a NaN, an infinity, and a condition of 1e15."""
STABLE = ("eigvalsh", "svdvals", "hessenberg", "tridiagonal")
"""What rounding changes little, whatever the condition."""


def is_nan(x: np.ndarray) -> bool:
    """Whether any number is; or whether it was, where the program says that."""
    return bool(x.any() if x.dtype == np.bool_ else np.isnan(x).any())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("letter", TOLERANCES)
@pytest.mark.parametrize("batch", BATCHES)
def test_as_jaxlib(folder: Path, name: str, letter: str, batch: str) -> None:
    for got, want in arrays(folder, f"{name}.{letter}.{batch}"):
        for n, (x, y) in enumerate(zip(got, want, strict=True)):
            if n == INFINITE and name in ("svd", "eigh"):
                assert is_nan(x), "LAPACK gives finite vectors beside values that are NaN"
            elif n in (NOT_A_NUMBER, INFINITE):
                assert x.dtype.kind == "i" or is_nan(x) == is_nan(y)
            elif n != CONDITION or name in STABLE:
                scale = max(1.0, float(np.abs(y).max()))
                np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCES[letter] * scale)
