"""Opcodes of bounded dynamic shapes."""

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from xladev.errors import ArgumentError, EvaluationError
from xladev.hlo import dtype as dt
from xladev.hlo.bounded import Bounded
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.reshaping import common_factors

ROWS = {"dimensions": (0,)}


def cut(b: HloBuilder) -> HloInstruction:
    """The first rows of a ``f32[4,3]``, as many as the second parameter says."""
    x, size = b.parameter(of("f32[4,3]")), b.parameter(of("s32[]"))
    return b.op("set-dimension-size", x, size, **ROWS)


def value(module: HloModule, rows: int) -> object:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    return HloEvaluator().run(module, x, np.asarray(rows, np.int32))


def test_size_is_set_and_got() -> None:
    b = HloBuilder("sizes")
    rows = cut(b)
    b.op("tuple", rows, b.op("get-dimension-size", rows, **ROWS))
    live, size = value(b.module(), 3)
    assert size == 3
    assert size.dtype == np.int32
    assert live.sizes == (3,)
    assert live.array[2].tolist() == [6, 7, 8]


def test_dead_elements_do_not_count() -> None:
    b = HloBuilder("sum")
    add = HloBuilder("add")
    x, y = add.parameter(of("f32[]")), add.parameter(of("f32[]"))
    body = add.build(add.op("add", x, y))
    b.op("reduce", cut(b), b.constant(0.0), dimensions=(0, 1), to_apply=body)
    assert value(b.module(), 2) == 15


def test_size_may_grow_again() -> None:
    b = HloBuilder("grow")
    rows = cut(b)
    whole = b.constant(4, dt.S32)
    b.op("set-dimension-size", rows, whole, shape=of("f32[4,3]"), **ROWS)
    got = value(b.module(), 1)
    assert got.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("rows", [5, -1])
def test_size_must_fit_the_bound(rows: int) -> None:
    b = HloBuilder("sizes")
    cut(b)
    with pytest.raises(EvaluationError):
        value(b.module(), rows)


def test_elementwise_and_movement_keep_the_live_part() -> None:
    b = HloBuilder("many")
    rows = cut(b)
    twice = b.op("concatenate", b.op("add", rows, rows), rows, **ROWS)
    assert twice.shape.to_string() == "f32[<=8,3]"
    b.op("transpose", twice, dimensions=(1, 0))
    got = value(b.module(), 2)
    assert got.sizes == (4,)
    assert got.array[:, :4].tolist() == [[0, 6, 0, 3], [2, 8, 1, 4], [4, 10, 2, 5]]


def test_dynamic_reshape() -> None:
    b = HloBuilder("reshape")
    rows = cut(b)
    sizes = b.constant(6, dt.S32), b.constant(1, dt.S32)
    b.op("dynamic-reshape", rows, *sizes, shape=of("f32[<=12,1]"))
    got = value(b.module(), 2)
    assert got.sizes == (6,)
    assert got.array[:6, 0].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(EvaluationError):
        value(b.module(), 3)


def test_reshape_cannot_guess_two_sizes() -> None:
    b = HloBuilder("guess")
    b.op("reshape", b.parameter(of("f32[<=6]")), shape=of("f32[<=2,<=3]"))
    assert HloEvaluator().run(b.module(), np.ones(6, np.float32)).sizes == (2, 3)
    with pytest.raises(EvaluationError):
        HloEvaluator().run(b.module(), np.ones(3, np.float32))


def test_arguments_of_dynamic_shape() -> None:
    b = HloBuilder("negate")
    b.op("negate", b.parameter(of("f32[<=4]")))
    module = b.module()
    for argument in (Bounded(np.ones(4, np.float32), (3,)), np.ones(3, np.float32)):
        assert HloEvaluator().run(module, argument).sizes == (3,)
    with pytest.raises(ArgumentError):
        HloEvaluator().run(module, np.ones(5, np.float32))


@pytest.mark.parametrize(
    ("source", "target", "runs"),
    [
        ((6,), (2, 3), [([0], [0, 1])]),
        ((2, 3, 4), (6, 4), [([0, 1], [0]), ([2], [1])]),
        ((2, 3), (2, 1, 3), [([0], [0, 1]), ([1], [2])]),
        ((), (1, 1), [([], [0, 1])]),
        ((2, 6), (4, 3), [([0, 1], [0, 1])]),
    ],
)
def test_runs_of_a_reshape(
    source: tuple[int, ...], target: tuple[int, ...], runs: list[tuple[list[int], list[int]]]
) -> None:
    assert [(list(i), list(j)) for i, j in common_factors(source, target)] == runs


def test_rules() -> None:
    get, set_ = "get-dimension-size", "set-dimension-size"
    assert result_of(get, "f32[<=4,3]", **ROWS) == "s32[]"
    assert_rejected("get_dimension_size_c1", get, "token", **ROWS)
    assert_rejected("get_dimension_size_c2", get, "f32[4]", dimensions=(1,))
    assert_rejected("get_dimension_size_c2", get, "f32[4]", dimensions=(0, 0))
    assert_rejected("get_dimension_size_c3", get, "u8[4294967296]", **ROWS)
    assert result_of(set_, "f32[4,3]", "s32[]", **ROWS) == "f32[<=4,3]"
    assert_rejected("set_dimension_size_c1", set_, "f32[4]", "token", **ROWS)
    assert_rejected("set_dimension_size_c2", set_, "f32[4]", "s32[]", dimensions=(1,))
    assert_rejected("set_dimension_size_c3", set_, "u8[4294967296]", "s32[]", **ROWS)
    assert_rejected("set_dimension_size_c4", set_, "f32[4]", "s64[]", **ROWS)
    assert_rejected("set_dimension_size_c4", set_, "f32[4]", "s32[1]", **ROWS)


def test_dynamic_reshape_rules() -> None:
    opcode, name = "dynamic-reshape", "dynamic_reshape"
    assert_rejected(f"{name}_c1", opcode, "token", "s32[]", to="f32[<=4]")
    assert_rejected(f"{name}_shape", opcode, "f32[4]", "s32[]")
    assert_rejected(f"{name}_c2", opcode, "f32[4]", "s64[]", to="f32[<=4]")
    assert_rejected(f"{name}_c3", opcode, "f32[4]", "s32[]", to="f32[<=4,1]")
    assert_rejected(f"{name}_c4", opcode, "f32[4]", "s32[]", to="f32[<=5]")
