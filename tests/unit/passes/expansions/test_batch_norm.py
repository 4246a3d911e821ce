"""Batch normalisation as sums, against its direct definition."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_near
from xladev.hlo import dtype as dt


@pytest.mark.parametrize(("dims", "axis"), [((2, 3, 4, 5), 1), ((4, 5), 1), ((2, 3, 4), 0)])
@pytest.mark.parametrize("t", ["f32", "f64", "bf16"])
def test_agrees_with_the_definition(t: str, dims: tuple[int, ...], axis: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype, count = dt.by_name(t).np, dims[axis]
    whole, vector = f"{t}[{','.join(map(str, dims))}]", f"{t}[{count}]"
    tail = f"epsilon=0.001, feature_index={axis}"
    x = (rng.standard_normal(dims) + 3).astype(dtype)
    a, b, c, d = (rng.random((4, count)) + 0.5).astype(dtype)
    three = f"({whole}, {vector}, {vector})"
    assert_near(
        f"r = {three} batch-norm-training({whole} x, {vector} y, {vector} z), {tail}", 0, x, a, b
    )
    assert_near(
        f"r = {whole} batch-norm-inference({whole} x, {vector} y, {vector} z, {vector} u, "
        f"{vector} v), {tail}", 0, x, a, b, c, d,
    )  # fmt: skip
    assert_near(
        f"r = {three} batch-norm-grad({whole} x, {vector} y, {vector} z, {vector} u, {whole} v), "
        f"{tail}", 0, x, a, b, c, x * x,
    )  # fmt: skip
