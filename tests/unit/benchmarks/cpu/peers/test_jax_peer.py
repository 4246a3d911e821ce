"""XLA:CPU as a peer: rows of f64 are timed as such."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cpu.child import Job
from benchmarks.cpu.peers.jax_peer import Jax

pytest.importorskip("jax")


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_is_computed_in_the_type_of_its_inputs(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "")
    a = np.eye(3, dtype=dtype)
    job = Job("cholesky", {"n": 3}, None, 1, [a])
    prepared = Jax().prepare(job)
    (factor,) = prepared.results(prepared.call())
    assert factor.dtype == dtype
