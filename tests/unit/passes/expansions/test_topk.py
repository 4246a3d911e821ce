"""topk as a sort, of all elements or of the best blocks."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, expanded
from xladev.hlo.text import parse_module


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("element_type", ["f32", "bf16", "f64", "s8", "u64"])
def test_agrees_with_the_definition(element_type: str, k: int, largest: str, seed: int) -> None:
    t = element_type
    assert_exact(f"r = ({t}[3,{k}], s32[3,{k}]) topk({t}[3,5] x), k={k}, largest={largest}", seed)


def test_special_values_are_in_total_order() -> None:
    values = np.array([0.0, -0.0, np.nan, np.inf, -np.nan, -np.inf, 1, 1], np.float32)
    assert_exact("r = (f32[8], s32[8]) topk(f32[8] x), k=8", 0, values)


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("element_type", ["f32", "bf16", "f64", "s8", "u64", "f8e4m3fn"])
def test_blocks_agree_with_the_definition(element_type: str, largest: str, seed: int) -> None:
    """Few different values, so that the order of equals shows."""
    t = element_type
    for n, k in ((1024, 16), (1025, 3), (3000, 1)):
        text = f"r = ({t}[2,2,{k}], s32[2,2,{k}]) topk({t}[2,2,{n}] x), k={k}, largest={largest}"
        module = parse_module(text)
        assert "gather" in {i.opcode for i in expanded(module).instructions}
        assert_exact(text, seed)


def test_blocks_keep_the_total_order(seed: int) -> None:
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.nan, -np.inf, 1, -1], np.float32)
    rng = np.random.default_rng(seed)
    for kept in (special, special[4:6], special[:2]):
        values = rng.choice(kept, 2000)
        for largest in ("true", "false"):
            text = f"r = (f32[30], s32[30]) topk(f32[2000] x), k=30, largest={largest}"
            assert_exact(text, 0, values)


def test_few_elements_are_sorted_at_once() -> None:
    for n, k in ((1023, 1), (6399, 100)):
        text = f"r = (f32[{k}], s32[{k}]) topk(f32[{n}] x), k={k}"
        made = expanded(parse_module(text))
        assert "gather" not in {i.opcode for i in made.instructions}
