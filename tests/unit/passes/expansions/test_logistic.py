"""logistic as a quotient."""

import ml_dtypes
import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_near, both_values


@pytest.mark.parametrize("t", ["f32", "bf16", "f16", "f64", "c64"])
def test_agrees_with_the_definition(t: str, seed: int) -> None:
    assert_near(f"r = {t}[100] logistic({t}[100] x)", seed, eps=4)


@pytest.mark.parametrize(
    ("t", "dtype", "least"),
    [("f32", np.float32, -104), ("bf16", ml_dtypes.bfloat16, -93), ("f16", np.float16, -17),
     ("f64", np.float64, -745)],
)  # fmt: skip
def test_is_right_down_to_denormals(t: str, dtype: type, least: float) -> None:
    """Where exp(-x) is infinite the result is none yet: a denormal."""
    x = np.linspace(least, 0.9 * least, 50).astype(dtype)
    ((direct, made),) = both_values(f"r = {t}[50] logistic({t}[50] x)", 0, x)
    assert (direct > 0).any() and (direct < ml_dtypes.finfo(dtype).tiny).any()
    unit = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    off = np.abs(made.astype(np.float64) - direct.astype(np.float64))
    assert (off <= np.maximum(unit, 4 * float(ml_dtypes.finfo(dtype).eps) * direct)).all()


def test_ends_and_nan() -> None:
    x = np.array([-np.inf, np.inf, np.nan, 0, -0.0, 3e38, -3e38], np.float32)
    ((direct, made),) = both_values("r = f32[7] logistic(f32[7] x)", 0, x)
    np.testing.assert_array_equal(made, direct)
