"""The order in which dimensions lie in memory."""

import pytest

from xladev.frontends.torch.layouts import Place, dense_order
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array


@pytest.mark.parametrize(
    ("strides", "dims", "order"),
    [
        ((12, 4, 1), (2, 3, 4), (0, 1, 2)),
        ((1, 2), (2, 3), (1, 0)),
        ((48, 1, 12, 3), (2, 3, 4, 4), (0, 2, 3, 1)),  # channels last
        ((0, 1), (2, 3), (0, 1)),  # repeated: copied first
        ((6, 1), (2, 3), (0, 1)),  # with gaps
        ((3, 99, 1), (2, 1, 3), (0, 1, 2)),  # a dimension of size 1 lies anywhere
        ((5, 1), (0, 3), (0, 1)),
        ((), (), ()),
    ],
)
def test_order(strides: tuple[int, ...], dims: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert dense_order(strides, dims) == order


def test_there_and_back() -> None:
    place = Place(array(dt.F32, (2, 3, 4)), (2, 0, 1))
    assert place.stored.dims == (4, 2, 3)
    assert [place.stored.dims[d] for d in place.back] == [2, 3, 4]
