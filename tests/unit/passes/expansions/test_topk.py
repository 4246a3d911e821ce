"""topk as a sort."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("element_type", ["f32", "bf16", "f64", "s8", "u64"])
def test_agrees_with_the_definition(element_type: str, k: int, largest: str, seed: int) -> None:
    t = element_type
    assert_exact(f"r = ({t}[3,{k}], s32[3,{k}]) topk({t}[3,5] x), k={k}, largest={largest}", seed)


def test_special_values_are_in_total_order() -> None:
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.nan, -np.inf, 1, 1], np.float32)
    assert_exact("r = (f32[8], s32[8]) topk(f32[8] x), k=8", 0, values)
