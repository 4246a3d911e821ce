"""Arithmetic on values: constants once, broadcasting, slices and pads that change nothing."""

import numpy as np
import pytest

from xladev.frontends.torch.lower.value import TensorBuilder, Value, broadcast_dims
from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import array


def value_of(builder: TensorBuilder, result: Value, *arguments: object) -> np.ndarray:
    return np.asarray(HloEvaluator().run(builder.module(result.node), *arguments))


def test_numbers_take_the_type_of_the_array_beside_them() -> None:
    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.S32, (3,))))
    assert value_of(b, 10 - x * 2, np.arange(3, dtype=np.int32)).tolist() == [10, 8, 6]


def test_arrays_are_broadcast_as_numpy_does() -> None:
    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.F32, (2, 1, 3))))
    y = Value(b, b.parameter(array(dt.F32, (4, 1))))
    left = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    right = np.arange(4, dtype=np.float32).reshape(4, 1)
    assert np.array_equal(value_of(b, x + y, left, right), left + right)


@pytest.mark.parametrize(
    ("shapes", "found"),
    [([(2, 1), (3,)], (2, 3)), ([(), (4,)], (4,)), ([(0, 1), (1, 5)], (0, 5)), ([], ())],
)
def test_common_sizes(shapes: list[tuple[int, ...]], found: tuple[int, ...]) -> None:
    assert broadcast_dims(*shapes) == found


def test_a_constant_is_made_once() -> None:
    b = TensorBuilder("t")
    assert b.scalar(2, dt.F32).node is b.scalar(2.0, dt.F32).node
    assert b.scalar(2, dt.F32).node is not b.scalar(2, dt.F64).node


def test_numbers_wrap_into_integers() -> None:
    b = TensorBuilder("t")
    assert int(value_of(b, b.scalar(-1, dt.U8))) == 255
    assert int(value_of(b, b.scalar(200, dt.S8))) == -56


def test_what_changes_nothing_is_no_instruction() -> None:
    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.F32, (2, 3))))
    assert x.reshape((2, 3)) is x
    assert x.transpose((0, 1)) is x
    assert x.slice(1, 0, 3) is x
    assert x.pad([(0, 0, 0), (0, 0, 0)]) is x
    assert x.cast(dt.F32) is x
