"""Products that are measured beside a copy."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.weight_reads import KEPT, drawn, product, rates
from xladev.client import compile as compile_for
from xladev.hlo.evaluator import HloEvaluator


@pytest.mark.parametrize("is_along", [True, False])
@pytest.mark.parametrize("name", KEPT)
def test_all_ways_to_keep_weights_are_products(name: str, is_along: bool) -> None:
    module = product("f32", KEPT[name], 256, 128, is_along)
    given = drawn(module)
    (got,) = (np.asarray(compile_for(module, "cpu")(*given)),)
    wanted = np.asarray(HloEvaluator().run(module, *given))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * float(np.max(abs(wanted))))


def test_rates_are_bytes_of_weights_and_of_the_copy() -> None:
    module = product("f32", KEPT["s8, groups of 128"], 256, 128, is_along=True)
    now = [0.0]

    def clock() -> float:
        now[0] += 0.5
        return now[0]

    ours, theirs = rates(module, 1, lambda: None, clock)
    assert ours == (256 * 128 + 4 * 2 * 128) / 0.5
    assert theirs == (128 << 20) / 0.5
