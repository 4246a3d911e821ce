"""What tests of decompositions share: random stacks, and running an expansion on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.shape import array
from xladev.hlo.verifier import verify
from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.linalg.matrices import Value

REALS = [np.float32, np.float64]
TYPES = [np.float32, np.float64, np.complex64, np.complex128]


def draw(seed: int, dtype: Any, *dims: int) -> Any:
    """Normally distributed numbers."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(dims)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(dims)
    return values.astype(dtype)


def adjoint(a: Any) -> Any:
    """Conjugate transpose."""
    return np.conj(a).swapaxes(-1, -2)


def hermitian(seed: int, dtype: Any, *dims: int) -> Any:
    """Random Hermitian matrices."""
    a = draw(seed, dtype, *dims)
    return (a + adjoint(a)).astype(dtype)


def run(make: Callable[..., Sequence[Value | None]], *given: Any) -> list[Any]:
    """Values of what ``make`` builds from an emitter and operands, verified first."""
    e = Emitter("stack")
    operands = [e.parameter(array(dt.by_numpy(x.dtype), x.shape)) for x in given]
    made = [x for x in make(e, *operands) if x is not None]
    module = with_unique_names(HloModule("stack", e.build(e.op("tuple", *made))))
    verify(module)
    return list(HloEvaluator().run(module, *given))


def instructions(make: Callable[..., Sequence[Value | None]], *dims: int) -> int:
    """How many instructions ``make`` builds for an f32 operand, in all computations."""
    e = Emitter("stack")
    made = [x for x in make(e, e.parameter(array(dt.F32, dims))) if x is not None]
    module = HloModule("stack", e.build(e.op("tuple", *made)))
    return sum(len(c.instructions) for c in module.computations)


def wide(a: Any) -> Any:
    """In f64 or c128."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def assert_close(got: Any, want: Any, eps: float) -> None:
    """Differences of at most ``eps`` machine epsilons of the largest element wanted."""
    assert got.shape == want.shape
    if not want.size:
        return
    unit = np.finfo(got.dtype).eps * max(np.abs(want).max(), 1e-300)
    np.testing.assert_allclose(wide(got), wide(np.asarray(want)), rtol=0, atol=eps * unit)


def assert_unitary(q: Any, eps: float) -> None:
    """Orthonormal columns."""
    k = q.shape[-1]
    product = adjoint(wide(q)) @ wide(q)
    worst = np.abs(product - np.eye(k)).max(initial=0)
    assert worst <= eps * np.finfo(q.dtype).eps, f"{worst} off from orthonormal"
