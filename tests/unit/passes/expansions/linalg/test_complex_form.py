"""From real to complex Schur forms: triangular, similar, and with eigenvalues in exact pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.expansions.linalg.stacks import (
    REALS,
    adjoint,
    assert_close,
    assert_unitary,
    draw,
    run,
    wide,
)
from xladev.passes.expansions.linalg.complex_form import complex_form
from xladev.passes.expansions.linalg.real_schur import real_schur


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", REALS)
def test_random(dtype: Any, n: int, seed: int) -> None:
    a = draw(seed, dtype, 3, n, n)
    t, qh, info = run(lambda e, a: tuple(complex_form(e, real_schur(e, a))), a)
    assert not info.any() and (np.tril(t, -1) == 0).all()
    assert_unitary(adjoint(qh), 40)
    rebuilt = adjoint(wide(qh)) @ wide(t) @ wide(qh)
    assert_close(rebuilt.astype(t.dtype), a.astype(t.dtype), 60)
    values = np.diagonal(t, axis1=1, axis2=2)
    for row in values:
        pairs = row[row.imag != 0]
        assert (pairs[::2] == np.conj(pairs[1::2])).all() and (pairs[::2].imag > 0).all()
