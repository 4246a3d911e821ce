"""Lowering rules of platforms that JAX does not know: of modules imported later, and of exports."""

from __future__ import annotations

import pytest

from tests.tools.jax_child import run_jax


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_sparse_systems_are_solved(platform: str) -> None:
    """The primitive's module is imported long after the plugin."""
    run_jax(
        """
import sys
import numpy as np
assert 'jax.experimental.sparse.linalg' not in sys.modules
from jax.experimental import sparse
from jax.experimental.sparse.linalg import spsolve
dense = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 5]], np.float32)
b = np.array([1.0, 2, 3], np.float32)
rows = sparse.BCSR.fromdense(jnp.asarray(dense))
def solve(data):
    return spsolve(data, rows.indices, rows.indptr, jnp.asarray(b))
for way in (solve, jax.jit(solve)):
    assert np.allclose(way(rows.data), np.linalg.solve(dense, b), rtol=1e-5)
got = jax.grad(lambda data: solve(data).sum())(rows.data)
whole = -np.outer(np.linalg.solve(dense.T, np.ones(3)), np.linalg.solve(dense, b))
assert np.allclose(got, whole[dense != 0], rtol=1e-4), got
""",
        platform,
    )


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_what_was_exported_for_the_cpu_runs(platform: str) -> None:
    """Also where it calls LAPACK by name, and where the CPU is one of several variants."""
    run_jax(
        """
import numpy as np
from jax import export
x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
def f(x):
    return jnp.linalg.eigh(x @ x.T)[0], jnp.sort(x, 0)
expected = f(jax.device_put(x, jax.devices('cpu')[0]))
shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
for platforms in (['cpu'], ['tpu', 'cpu', 'cuda']):
    made = export.export(jax.jit(f), platforms=platforms)(shape)
    for way in (made.call, jax.jit(made.call)):
        for got, want in zip(way(jnp.asarray(x)), expected):
            assert got.devices() == {jax.devices()[0]}
            assert np.allclose(got, want, rtol=1e-4, atol=1e-5)
(size,) = export.symbolic_shape('n')
free = jax.ShapeDtypeStruct((size, 8), x.dtype)
made = export.export(jax.jit(lambda x: x.sum(1)), platforms=['cpu'])(free)
assert np.allclose(made.call(x[:5]), x[:5].sum(1), rtol=1e-5)
for_tpu = export.export(jax.jit(jnp.sin), platforms=['tpu'])(shape)
try:
    for_tpu.call(x)
except ValueError as error:
    assert jax.default_backend() in str(error), error
else:
    raise SystemExit('what was exported for another platform was taken')
""",
        platform,
    )
