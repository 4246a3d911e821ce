"""Literals: equal where shapes and bits are, however long they are."""

import hashlib

import numpy as np
import pytest

from xladev.errors import LiteralError
from xladev.hlo.dtype import BF16, F32, PRED, S4
from xladev.hlo.literal import SHORT_NBYTES, Literal, literal_of
from xladev.hlo.shape import TOKEN_SHAPE, array

COUNT = SHORT_NBYTES // 2
"""Elements of a long literal of any type of two bytes or more."""


@pytest.mark.parametrize("value", [np.ma.masked_array([1.0], [True]), (np.ma.masked_array([1]),)])
def test_a_mask_is_not_dropped_silently(value: object) -> None:
    with pytest.raises(LiteralError, match=r"masked(.|\n)*value.filled"):
        literal_of(value)


def _long(**changed: float) -> Literal:
    values = np.arange(COUNT, dtype=np.float32)
    for place, value in changed.items():
        values[int(place.removeprefix("at"))] = value
    return literal_of(values)


def test_long_literals_are_told_apart_by_any_bit() -> None:
    one = _long()
    assert not one.is_short
    assert one == _long() and hash(one) == hash(_long())
    assert one != _long(at12345=-1.0)
    assert _long(at7=0.0) != _long(at7=-0.0)
    assert one != literal_of(np.arange(COUNT, dtype=np.float32).reshape(2, -1))


def test_long_literals_keep_no_second_copy_of_their_bytes() -> None:
    one = _long()
    assert one.bits() == one.bits() and one.bits() is not one.bits()
    short = literal_of([1.0, 2.0])
    assert short.bits() is short.bits()


@pytest.mark.parametrize("dtype", [F32, BF16, PRED, S4])
@pytest.mark.parametrize("dims", [(), (0,), (3, 5), (70000,)])
def test_views_and_digests_are_those_of_the_bits(dtype: object, dims: tuple[int, ...]) -> None:
    made = Literal(array(dtype, dims), np.ones(dims, dtype.np))  # type: ignore[attr-defined, arg-type]
    assert made.view() == made.bits() and made.view().readonly
    assert made.digest() == hashlib.sha256(made.bits()).digest()


def test_a_read_only_view_of_what_others_may_write_to_is_copied() -> None:
    owner = np.arange(COUNT, dtype=np.float32)
    view = owner.reshape(1, -1)[:]
    view.flags.writeable = False
    made = literal_of(view)
    digest = made.digest()
    owner[5] = -1.0
    assert made.array is not None and made.array[0, 5] == 5.0
    assert digest == hashlib.sha256(made.bits()).digest()


def test_what_nobody_may_write_to_is_not_copied() -> None:
    owner = np.arange(COUNT, dtype=np.float32)
    owner.flags.writeable = False
    assert np.shares_memory(literal_of(owner[:7]).value, owner)


def test_tuples_and_tokens_have_views_too() -> None:
    pair = literal_of((np.float32(1), np.arange(COUNT, dtype=np.float32)))
    assert pair.view() == pair.bits() and not pair.is_short
    assert pair == literal_of((np.float32(1), np.arange(COUNT, dtype=np.float32)))
    assert pair != literal_of((np.float32(2), np.arange(COUNT, dtype=np.float32)))
    assert Literal(TOKEN_SHAPE).view().nbytes == 0
