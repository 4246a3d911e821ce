"""Top-k under all its names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of
from tests.unit.hlo.custom_calls.calls import run_call
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import array, tuple_of


@pytest.mark.parametrize("target", ["TopK", "mhlo.topk", "chlo.top_k"])
def test_the_first_of_equals_comes_first(target: str) -> None:
    x = np.array([[3, 1, 3, 2], [0, 5, -1, 5]], np.float32)
    values, indices = run_call(target, tuple_of(of("f32[2,3]"), of("s32[2,3]")), x)
    assert values.tolist() == [[3, 3, 2], [5, 5, 0]]
    assert indices.tolist() == [[0, 2, 3], [1, 3, 0]]


def test_nan_is_the_largest() -> None:
    x = np.array([1, np.nan, np.inf, -0.0, 0.0], np.float32)
    _, indices = run_call("TopK", tuple_of(of("f32[5]"), of("s32[5]")), x)
    assert indices.tolist() == [1, 2, 0, 4, 3]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_other_types(dtype: type) -> None:
    x = np.array([3, 1, 7, 2], dtype)
    shape = tuple_of(array(dt.by_numpy(x.dtype), (2,)), of("s32[2]"))
    assert run_call("TopK", shape, x)[1].tolist() == [2, 0]


def comparator(direction: str) -> HloComputation:
    b = HloBuilder("comparator")
    left, right = b.parameter(of("f32[]")), b.parameter(of("f32[]"))
    b.parameter(of("s32[]"))
    b.parameter(of("s32[]"))
    return b.build(b.op("compare", left, right, direction=direction))


@pytest.mark.parametrize("target", ["ApproxTopK", "PartialReduce"])
@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_approximate_top_k_is_exact(target: str, direction: str) -> None:
    x = np.array([[0, 9], [7, 3], [2, 1], [5, 6], [4, 8]], np.float32)
    index = np.broadcast_to(np.arange(5, dtype=np.int32)[:, None], x.shape).copy()
    values, indices = run_call(
        target, tuple_of(of("f32[2,2]"), of("s32[2,2]")), x, index, np.float32(0), np.int32(-1),
        config='{"reduction_dim": 0, "top_k": 2}', called_computations=(comparator(direction),),
    )  # fmt: skip
    ordered = np.sort(x, axis=0)[::-1][:2] if direction == "GT" else np.sort(x, axis=0)[:2]
    np.testing.assert_array_equal(values, ordered)
    np.testing.assert_array_equal(np.take_along_axis(x, indices, 0), values)


def test_rejects() -> None:
    assert_rejected(
        "custom_call_top_k", "custom-call", "f32[4]", to="f32[2]", custom_call_target="TopK"
    )
