"""dynamic-slice, dynamic-update-slice, gather and scatter."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run, scalar_computation
from tests.unit.hlo.ops.index_programs import gathered, random_program, scattered
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation
from xladev.hlo.ops.scattering import rounds
from xladev.hlo.shape import array


def combiner(opcode: str, element_type: dt.PrimitiveType = dt.F32) -> HloComputation:
    """``update``, ``2 * current + update``, or one opcode of both."""
    b = HloBuilder(opcode)
    current, update = b.parameter(array(element_type)), b.parameter(array(element_type))
    if opcode == "update":
        return b.build(update)
    if opcode == "in-order":
        twice = b.op("multiply", current, b.constant(2.0, element_type))
        return b.build(b.op("add", twice, update))
    return b.build(b.op(opcode, current, update))


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda current, update: update,
    "in-order": lambda current, update: 2 * current + update,
    "add": lambda current, update: current + update,
    "multiply": lambda current, update: current * update,
    "maximum": max,
    "minimum": min,
}


@pytest.mark.parametrize("turn", range(60))
def test_gather_is_what_it_says(turn: int, seed: int) -> None:
    rng = np.random.default_rng([seed, turn])
    program = random_program(rng)
    x = rng.normal(size=program.dims).astype(np.float32)
    got = run("gather", x, program.indices, **program.gather_attrs())
    np.testing.assert_array_equal(got, gathered(program, x), str(program))


@pytest.mark.parametrize("turn", range(20))
@pytest.mark.parametrize("opcode", COMBINE)
def test_scatter_is_what_it_says(turn: int, opcode: str, seed: int) -> None:
    rng = np.random.default_rng([seed, turn, list(COMBINE).index(opcode)])
    program = random_program(rng)
    x = rng.integers(-9, 9, program.dims).astype(np.float32)
    updates = rng.integers(-9, 9, program.side_dims).astype(np.float32)
    attrs = program.scatter_attrs()
    got = run("scatter", x, program.indices, updates, to_apply=combiner(opcode), **attrs)
    want = scattered(program, x, updates, COMBINE[opcode])
    np.testing.assert_array_equal(got, want, str(program))


LINE = {
    "update_window_dims": (),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.int8, ml_dtypes.int4, np.float64])
def test_many_duplicates_are_added_in_order(dtype: type) -> None:
    rng = np.random.default_rng(0)
    at, updates = rng.integers(0, 3, 50), rng.integers(-3, 4, 50).astype(dtype)
    body = scalar_computation("add", dt.by_numpy(dtype))
    got = run("scatter", np.zeros(3, dtype), at[:, None], updates, to_apply=body, **LINE)
    want = np.zeros(3, dtype)
    for i, update in zip(at, updates, strict=True):
        want[i] = want[i] + update
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def test_a_window_partly_outside_is_dropped_whole() -> None:
    attrs = {**LINE, "update_window_dims": (1,), "inserted_window_dims": ()}
    at, updates = np.int32([[3], [2], [-1]]), np.float32([[1, 2], [3, 4], [5, 6]])
    x = np.zeros(4, np.float32)
    got = run("scatter", x, at, updates, to_apply=combiner("update"), **attrs)
    assert got.tolist() == [0, 0, 3, 4]


def test_variadic_scatter() -> None:
    b = HloBuilder("both")
    x, y, u, v = (b.parameter(of(t)) for t in ("f32[]", "s32[]", "f32[]", "s32[]"))
    body = b.build(b.op("tuple", b.op("maximum", x, u), b.op("add", y, v)))
    at = np.int32([[1], [1], [0]])
    operands = np.float32([0, 0]), np.int32([0, 0]), at, np.float32([5, 3, -1]), np.int32([1, 1, 1])
    floats, ints = run("scatter", *operands, to_apply=body, **LINE)
    assert floats.tolist() == [0, 5]
    assert ints.tolist() == [1, 2]


def test_scatter_of_signed_zeros_and_nan() -> None:
    x, at = np.float32([-0.0, 1]), np.int32([[0], [1]])
    got = run("scatter", x, at, np.float32([0, np.nan]), to_apply=combiner("maximum"), **LINE)
    assert not np.signbit(got[0])
    assert np.isnan(got[1])


def test_rounds_keep_the_order_of_duplicates() -> None:
    turns = [list(turn) for turn in rounds(np.array([7, 3, 7, 7, 3]))]
    assert [sorted(turn) for turn in turns] == [[0, 1], [2, 4], [3]]
    assert list(rounds(np.array([], np.int64))) == []


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint64, np.int64])
def test_dynamic_slices_are_clamped(dtype: type) -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    limit = np.iinfo(dtype).max
    for row, column in ((0, 0), (2, 1), (limit, 3), (np.iinfo(dtype).min, limit)):
        starts = np.asarray(row, dtype), np.asarray(column, dtype)
        r, c = min(max(int(row), 0), 2), min(max(int(column), 0), 2)
        got = run("dynamic-slice", x, *starts, dynamic_slice_sizes=(2, 3))
        np.testing.assert_array_equal(got, x[r : r + 2, c : c + 3])
        update = np.full((2, 3), -1, np.float32)
        want = x.copy()
        want[r : r + 2, c : c + 3] = -1
        np.testing.assert_array_equal(run("dynamic-update-slice", x, update, *starts), want)
    assert x[0, 0] == 0


def test_starts_may_be_one_vector() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = run("dynamic-slice", x, np.int32([1, 9]), dynamic_slice_sizes=(1, 2))
    assert got.tolist() == [[4, 5]]


def test_gather_from_nothing() -> None:
    x, at = np.zeros((0, 3), np.float32), np.zeros((0, 1), np.int32)
    attrs = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,)}
    got = run("gather", x, at, index_vector_dim=1, slice_sizes=(0, 3), **attrs)
    assert got.shape == (0, 3)


def test_dynamic_slice_rules() -> None:
    opcode, name = "dynamic-slice", "dynamic_slice"
    one = {"dynamic_slice_sizes": (1,)}
    assert result_of(opcode, "f32[<=4]", "s32[]", **one) == "f32[1]"
    assert_rejected(f"{name}_c1", opcode, "f32[4]", "token", **one)
    assert_rejected(f"{name}_c2", opcode, "f32[4]", "s32[]", "s32[]", **one)
    assert_rejected(f"{name}_c2", opcode, "f32[4]", "s32[2]", **one)
    assert_rejected(f"{name}_c2", opcode, "f32[4]", "s32[1,1]", **one)
    assert_rejected(f"{name}_c3", opcode, "f32[4]", "f32[]", **one)
    assert_rejected(f"{name}_c3", opcode, "f32[4]", "f32[1]", **one)
    assert_rejected(f"{name}_c3", opcode, "f32[4,4]", "s32[]", "s64[]", **one)
    assert_rejected(f"{name}_c4", opcode, "f32[4]", "s32[]", dynamic_slice_sizes=(1, 1))
    assert_rejected(f"{name}_c5", opcode, "f32[4]", "s32[]", dynamic_slice_sizes=(5,))


def test_dynamic_update_slice_rules() -> None:
    opcode, name = "dynamic-update-slice", "dynamic_update_slice"
    assert result_of(opcode, "f32[4]", "f32[<=4]", "s32[]") == "f32[<=4]"
    assert_rejected(f"{name}_c1", opcode, "f32[4]", "token", "s32[]")
    assert_rejected(f"{name}_c2", opcode, "f32[4]", "f32[2]")
    assert_rejected(f"{name}_c3", opcode, "f32[4]", "f32[2]", "pred[]")
    assert_rejected(f"{name}_c4", opcode, "f32[4]", "f16[2]", "s32[]")
    assert_rejected(f"{name}_c5", opcode, "f32[4]", "f32[2,2]", "s32[]")
    assert_rejected(f"{name}_c6", opcode, "f32[4]", "f32[5]", "s32[]")


GATHER = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 3),
}


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("c3", {"index_vector_dim": 3}),
        ("c4", {"start_index_map": (2,)}),
        ("c5", {"start_index_map": (0, 1)}),
        ("c6", {"offset_dims": (2,)}),
        ("c6", {"offset_dims": (1, 0), "collapsed_slice_dims": ()}),
        ("c7", {"collapsed_slice_dims": (-1,)}),
        ("c8", {"operand_batching_dims": (2,), "start_indices_batching_dims": (0,)}),
        ("c9", {"operand_batching_dims": (1,), "start_indices_batching_dims": (2,)}),
        ("c10", {"operand_batching_dims": (0,), "start_indices_batching_dims": (0,)}),
        ("c11", {"collapsed_slice_dims": ()}),
        ("c12", {"operand_batching_dims": (1,), "offset_dims": ()}),
        ("c13", {"slice_sizes": (1,)}),
        ("c14", {"slice_sizes": (1, 4)}),
        ("c15", {"slice_sizes": (2, 3)}),
    ],
)
def test_gather_rules(rule: str, changes: dict[str, Any]) -> None:
    assert_rejected(f"gather_{rule}", "gather", "f32[4,3]", "s32[5,1]", **{**GATHER, **changes})


def test_gather_shapes() -> None:
    assert result_of("gather", "f32[4,<=3]", "s32[<=5,1]", **GATHER) == "f32[<=5,<=3]"
    assert_rejected("gather_c1", "gather", "token", "s32[5,1]", **GATHER)
    assert_rejected("gather_c2", "gather", "f32[4,3]", "f32[5,1]", **GATHER)
    batched = {"operand_batching_dims": (1,), "start_indices_batching_dims": (0,)}
    changed = {**GATHER, **batched, "offset_dims": (), "slice_sizes": (1, 1)}
    assert_rejected("gather_c12", "gather", "f32[4,3]", "s32[5,1]", **changed)
    changed["start_indices_batching_dims"] = (1,)
    assert_rejected("gather_c12", "gather", "f32[4,1]", "s32[5,1]", **changed)


SCATTER = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}


@pytest.mark.parametrize(
    ("rule", "operands", "changes"),
    [
        ("c1", ("token", "s32[5,1]", "f32[5,3]"), {}),
        ("c2", ("f32[4,3]", "f32[5,1]", "f32[5,3]"), {}),
        ("c3", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"index_vector_dim": -1}),
        ("c4", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"scatter_dims_to_operand_dims": (2,)}),
        ("c5", ("f32[4,3]", "s32[5,2]", "f32[5,3]"), {}),
        ("c6", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"update_window_dims": (2,)}),
        ("c7", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"inserted_window_dims": (0, 0)}),
        ("c8", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"input_batching_dims": (7,)}),
        ("c9", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"scatter_indices_batching_dims": (2,)}),
        ("c10", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"input_batching_dims": (0,)}),
        ("c11", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"inserted_window_dims": ()}),
        ("c12", ("f32[4,3]", "s32[5,1]", "f32[5,3]"), {"scatter_indices_batching_dims": (0,)}),
        ("c13", ("f32[4,3]", "f32[4,3]", "s32[5,1]", "f32[5,3]"), {}),
        ("c14", ("f32[4,3]", "f32[5,3]", "s32[5,1]", "f32[5,3]", "f32[5,3]"), {}),
        ("c15", ("f32[4,3]", "s32[5,1]", "f32[5,3,1]"), {}),
        ("c16", ("f32[4,3]", "s32[5,1]", "f32[5,4]"), {}),
        ("c17", ("f32[4,3]", "s32[5,1]", "f32[6,3]"), {}),
        ("c18", ("f32[4,3]", "f32[4,3]", "s32[5,1]", "f32[5,3]", "f32[5,3]"), {}),
        ("c19", ("f32[4,3]", "s32[5,1]", "f16[5,3]"), {}),
    ],
)
def test_scatter_rules(rule: str, operands: tuple[str, ...], changes: dict[str, Any]) -> None:
    attrs = {**SCATTER, "to_apply": combiner("add"), **changes}
    assert_rejected(f"scatter_{rule}", "scatter", *operands, **attrs)


def test_scatter_result_is_like_the_operand() -> None:
    attrs = {**SCATTER, "to_apply": combiner("add")}
    assert result_of("scatter", "f32[4,<=3]", "s32[5,1]", "f32[5,3]", **attrs) == "f32[4,<=3]"
