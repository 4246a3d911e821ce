"""logistic as a quotient."""

import pytest

from tests.unit.passes.expansions.single import assert_near


@pytest.mark.parametrize("t", ["f32", "bf16", "f16", "f64", "c64"])
def test_agrees_with_the_definition(t: str, seed: int) -> None:
    assert_near(f"r = {t}[100] logistic({t}[100] x)", seed, eps=4)
