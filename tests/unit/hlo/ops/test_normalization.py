"""Batch normalisation: against the textbook, and gradients against finite differences."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run

PLAIN: dict[str, Any] = {"epsilon": 0.25, "feature_index": 1}


def textbook(x: Any, scale: Any, offset: Any, mean: Any, variance: Any, axis: int) -> Any:
    dims = [-1 if i == axis else 1 for i in range(x.ndim)]
    scale, offset, mean, variance = (v.reshape(dims) for v in (scale, offset, mean, variance))
    return (x - mean) / np.sqrt(variance + 0.25) * scale + offset


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training(axis: int, dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 2, (4, 5, 6)).astype(dtype)
    scale, offset = (rng.normal(size=x.shape[axis]).astype(dtype) for _ in range(2))
    got = run("batch-norm-training", x, scale, offset, epsilon=0.25, feature_index=axis)
    others = tuple(i for i in range(3) if i != axis)
    wide = x.astype(np.float64)
    mean, variance = wide.mean(others), wide.var(others)
    want = textbook(wide, scale, offset, mean, variance, axis), mean, variance
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_variance_survives_a_large_mean() -> None:
    x = (np.array([[1.0], [2.0], [3.0]]) + 2**20).astype(np.float32)
    one = np.ones(1, np.float32)
    _, mean, variance = run("batch-norm-training", x, one, one, **PLAIN)
    assert mean == 2**20 + 2 and variance == np.float32(2 / 3)


def test_inference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 5, 6)).astype(np.float32)
    scale, offset, mean = (rng.normal(size=5).astype(np.float32) for _ in range(3))
    variance = rng.random(5).astype(np.float32)
    got = run("batch-norm-inference", x, scale, offset, mean, variance, **PLAIN)
    # the offset may cancel the product, whose rounding then is what remains
    want = textbook(x, scale, offset, mean, variance, 1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_bf16_keeps_its_type() -> None:
    x, one = np.ones((2, 3), ml_dtypes.bfloat16), np.ones(3, ml_dtypes.bfloat16)
    for part in run("batch-norm-training", x, one, one, **PLAIN):
        assert part.dtype == ml_dtypes.bfloat16


def test_gradients_are_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, grad = rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 3, 2))
    scale, offset = rng.normal(size=3), rng.normal(size=3)

    def loss(x: Any, scale: Any, offset: Any) -> float:
        return float((run("batch-norm-training", x, scale, offset, **PLAIN)[0] * grad).sum())

    mean, variance = x.mean((0, 2)), x.var((0, 2))
    got = run("batch-norm-grad", x, scale, mean, variance, grad, **PLAIN)
    for number, (value, found) in enumerate(zip((x, scale, offset), got, strict=True)):
        want = np.empty_like(value)
        for at in np.ndindex(*value.shape):
            ends: list[float] = []
            for step in (1e-5, -1e-5):
                arguments = [x, scale, offset]
                arguments[number] = value.copy()
                arguments[number][at] += step
                ends.append(loss(*arguments))
            want[at] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7)


VECTORS = ("f32[5]",) * 4


@pytest.mark.parametrize("op", ["batch-norm-training", "batch-norm-inference", "batch-norm-grad"])
def test_rejects(op: str) -> None:
    name = op.replace("-", "_")
    count = {"batch-norm-training": 2, "batch-norm-inference": 4, "batch-norm-grad": 3}[op]
    last = ("f32[4,5]",) if op == "batch-norm-grad" else ()
    good = VECTORS[:count]
    assert_rejected(f"{name}_operand", op, "token", *good, *last, **PLAIN)
    bad_axis = {**PLAIN, "feature_index": 2}
    assert_rejected(f"{name}_c1", op, "f32[4,5]", *good, *last, **bad_axis)
    assert_rejected(f"{name}_c2", op, "s32[4,5]", *good, *last, **PLAIN)
    assert_rejected(f"{name}_c3", op, "f32[4,6]", *good, *last, **PLAIN)


def test_grad_rejects_a_gradient_of_other_dimensions() -> None:
    operands = ("f32[4,5]", "f32[5]", "f32[5]", "f32[5]", "f32[5,4]")
    assert_rejected("batch_norm_grad_c4", "batch-norm-grad", *operands, **PLAIN)


def test_shapes() -> None:
    got = result_of("batch-norm-training", "f32[<=4,5]", "f32[5]", "f32[5]", **PLAIN)
    assert got == "(f32[<=4,5], f32[5], f32[5])"
