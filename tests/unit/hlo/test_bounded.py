"""Values of bounded dynamic shape."""

import numpy as np
import pytest

from tests.tools.rejections import of
from xladev.errors import ArgumentError, EvaluationError
from xladev.hlo.bounded import Bounded, bounded, from_live, to_live, trimmed
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import tuple_of
from xladev.hlo.text import parse_module


def test_live_part_and_back() -> None:
    shape, full = of("f32[<=4,3,<=2]"), np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    live = Bounded(full, (2, 1)).live(shape)
    assert live.shape == (2, 3, 1)
    again = bounded(live, shape)
    assert again.sizes == (2, 1)
    assert again.array.shape == (4, 3, 2)
    assert again.array[2:].sum() == 0


def test_tuples_are_converted_part_by_part() -> None:
    shape = tuple_of(of("f32[<=2]"), of("s32[]"))
    value = (Bounded(np.float32([1, 2]), (1,)), np.int32(3))
    live = to_live(value, shape)
    assert live[0].tolist() == [1]
    back = from_live(live, shape)
    assert back[0].sizes == (1,)
    assert back[1] == 3


@pytest.mark.parametrize("sizes", [(3,), (-1,), (), (1, 1)])
def test_wrong_sizes(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError):
        Bounded(np.zeros(2, np.float32), sizes).live(of("f32[<=2]"))


def test_static_arrays_are_cut_to_live_sizes() -> None:
    shapes = [of("f32[<=4,2]"), of("f32[4,2]"), of("f32[]")]
    values = [np.ones((3, 2), np.float32), np.arange(8.0).reshape(4, 2), np.float32(1)]
    _, cut, scalar = trimmed(values, shapes, 2)
    assert cut.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert scalar == 1


def test_a_static_operand_meets_a_dynamic_one() -> None:
    text = "e { a = f32[<=4] parameter(0)\n b = f32[4] parameter(1)\n r = f32[<=4] add(a, b) }"
    b = np.float32([1, 2, 3, 4])
    got = HloEvaluator().run(parse_module(text), Bounded(b, (2,)), b)
    assert (got.array.tolist(), got.sizes) == ([2, 4, 0, 0], (2,))


def test_live_sizes_that_contradict_each_other_are_refused() -> None:
    text = "e { a = f32[<=4] parameter(0)\n b = f32[<=4] parameter(1)\n r = f32[<=4] add(a, b) }"
    x = np.zeros(4, np.float32)
    with pytest.raises(EvaluationError, match="sizes"):
        HloEvaluator().run(parse_module(text), Bounded(x, (2,)), Bounded(x, (3,)))


def test_no_value_without_bound() -> None:
    with pytest.raises(ArgumentError, match=r"f32\[\?\]"):
        bounded(np.zeros(2, np.float32), of("f32[?]"))
