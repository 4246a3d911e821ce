"""sort and topk."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run, scalar_computation
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation
from xladev.hlo.ops.ordering import merge_sort
from xladev.hlo.shape import array


def comparator(kind: str, types: Sequence[dt.PrimitiveType]) -> HloComputation:
    """A comparator of one or two keys."""
    b = HloBuilder(kind)
    p = [b.parameter(array(t)) for t in types for _ in range(2)]
    if kind == "lexicographic":
        equal = b.op("compare", p[0], p[1], direction="EQ")
        second = b.op("compare", p[2], p[3], direction="LT")
        first = b.op("compare", p[0], p[1], direction="LT")
        return b.build(b.op("select", equal, second, first))
    if kind == "magnitude":
        b.op("compare", b.op("abs", p[0]), b.op("abs", p[1]), direction="LT")
    elif kind == "swapped":
        b.op("compare", p[1], p[0], direction="GT")
    else:
        direction, _, order = kind.partition(" ")
        b.op("compare", p[0], p[1], direction=direction, type=order or None)
    return b.build()


@pytest.mark.parametrize("kind", ["LT", "GT", "lexicographic", "magnitude", "swapped"])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize(("dims", "axis"), [((7,), 0), ((3, 33, 2), 1), ((64, 2), 0), ((1, 5), 0)])
def test_sort_is_stable(kind: str, dtype: Any, dims: tuple[int, ...], axis: int) -> None:
    if kind == "magnitude" and np.dtype(dtype).kind in "ub":
        return
    rng = np.random.default_rng(3)
    low = 0 if np.dtype(dtype).kind in "ub" else -3
    key = rng.integers(low, 4, dims).astype(dtype)
    second = rng.integers(-2, 3, dims).astype(np.int32)
    number = np.arange(key.size, dtype=np.int32).reshape(dims)
    operands = key, second, number
    types = [dt.by_numpy(a.dtype) for a in operands]
    got = run("sort", *operands, dimensions=(axis,), to_apply=comparator(kind, types))
    wide = key.astype(np.float64)
    ranks = {"GT": -wide, "magnitude": np.abs(wide)}.get(kind, wide)
    if kind == "lexicographic":
        ranks = ranks * 10 + second
    order = np.argsort(ranks, axis=axis, kind="stable")
    for result, operand in zip(got, operands, strict=True):
        np.testing.assert_array_equal(result, np.take_along_axis(operand, order, axis))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_total_order_puts_nan_at_the_ends(dtype: Any) -> None:
    x = np.array([np.nan, 1, -0.0, 0.0, -np.inf, np.inf, -np.nan], dtype)
    x[6] = np.copysign(x[0:1].astype(np.float32), np.float32(-1)).astype(dtype)[0]
    types = [dt.by_numpy(dtype)]
    got = run("sort", x, dimensions=(0,), to_apply=comparator("LT TOTALORDER", types))
    np.testing.assert_array_equal(
        got.astype(np.float32), np.float32([np.nan, -np.inf, -0.0, 0, 1, np.inf, np.nan])
    )
    assert list(np.signbit(got)) == [True, True, True, False, False, False, False]
    back = run("sort", x, dimensions=(0,), to_apply=comparator("GT TOTALORDER", types))
    np.testing.assert_array_equal(np.signbit(back), np.signbit(got)[::-1])


def test_nan_under_a_plain_comparator_gives_a_permutation() -> None:
    x = np.random.default_rng(0).permutation(np.float32([*range(40), *[np.nan] * 9]))
    for kind in ("LT", "swapped"):
        got = run("sort", x, dimensions=(0,), to_apply=comparator(kind, [dt.F32]))
        np.testing.assert_array_equal(np.sort(got), np.sort(x))


def test_inconsistent_comparator_gives_a_permutation() -> None:
    rng = np.random.default_rng(1)

    def before(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return rng.random(np.broadcast_shapes(left.shape, right.shape)) < 0.5

    order = merge_sort(before, 4, 37)
    np.testing.assert_array_equal(np.sort(order, axis=1), np.tile(np.arange(37), (4, 1)))


def test_nothing_to_sort() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert run("sort", empty, dimensions=(0,), to_apply=comparator("LT", [dt.F32])).shape == (0, 3)


def test_sort_rules() -> None:
    less = comparator("LT", [dt.F32])
    attrs: dict[str, Any] = {"dimensions": (0,), "to_apply": less}
    assert result_of("sort", "f32[<=3]", **attrs) == "f32[<=3]"
    assert_rejected("sort_c1", "sort", "token", **attrs)
    both = comparator("LT", [dt.F32, dt.S32])
    assert_rejected("sort_c2", "sort", "f32[3]", "s32[4]", dimensions=(0,), to_apply=both)
    assert result_of("sort", "f32[3]", "s32[3]", dimensions=(0,), to_apply=both) == (
        "(f32[3], s32[3])"
    )
    assert_rejected("sort_c3", "sort", "f32[3]", dimensions=(1,), to_apply=less)
    assert_rejected("sort_c3", "sort", "f32[3]", dimensions=(), to_apply=less)
    adds = scalar_computation("add")
    assert_rejected("sort_c4", "sort", "f32[3]", dimensions=(0,), to_apply=adds)
    assert_rejected("sort_c5", "sort", "f32[3]", "f32[3]", **attrs)
    assert_rejected("sort_c6", "sort", "s32[3]", **attrs)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype: Any, largest: bool) -> None:
    x = np.random.default_rng(2).integers(0, 5, (3, 12)).astype(dtype)
    values, places = run("topk", x, k=4, largest=largest)
    wide = x.astype(np.float64) * (-1 if largest else 1)
    want = np.argsort(wide, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))
    assert places.dtype == np.int32


def test_topk_ranks_nan_highest() -> None:
    values, places = run("topk", np.float32([1, np.nan, np.inf, -1]), k=2)
    assert list(places) == [1, 2]
    assert np.isnan(values[0])


def test_topk_rules() -> None:
    assert result_of("topk", "f32[<=3,5]", k=2) == "(f32[<=3,2], s32[<=3,2])"
    assert_rejected("topk_c1", "topk", "token", k=1)
    assert_rejected("topk_c2", "topk", "f32[]", k=1)
    assert_rejected("topk_c3", "topk", "c64[3]", k=1)
    assert_rejected("topk_c4", "topk", "f32[3]", k=4)
