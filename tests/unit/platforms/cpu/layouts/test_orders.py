"""Where dimensions go when some are moved behind all others."""

import numpy as np
import pytest

from xladev.platforms.cpu.layouts.orders import (
    Span,
    is_free,
    one,
    order_with_last,
    place_of,
    with_last,
)

DIMS = 2, 3, 4, 5


@pytest.mark.parametrize("span", [Span(f, e) for f in range(5) for e in range(f, 5)], ids=str)
def test_dimensions_go_where_a_transpose_puts_them(span: Span) -> None:
    order = order_with_last(4, span)
    moved = np.zeros(DIMS).transpose(order).shape
    assert with_last(DIMS, span) == moved
    assert [moved[place_of(d, span, 4)] for d in range(4)] == list(DIMS)
    assert (order != (0, 1, 2, 3)) == (span.moves(4) and span.width < 4)


def test_what_moves_no_element() -> None:
    assert is_free((2, 7, 1, 1), one(1))
    assert is_free((2, 1, 5, 5), one(1))
    assert is_free((2, 7, 5), one(2))
    assert not is_free((2, 7, 5, 1), one(1))
