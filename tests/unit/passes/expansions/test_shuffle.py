"""shuffle, held against rotation by NumPy."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, expanded
from xladev.hlo.text import parse_module

X = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("shifts", [(0, 0), (1, 0), (-1, 2), (4, 7), (-9, -5)])
def test_rotation(shifts: tuple[int, int]) -> None:
    numbers = ",".join(map(str, shifts))
    text = (
        f"r = f32[3,5] shuffle(f32[3,5] x), dimensions={{0,1}}, mode=rotate, shifts={{{numbers}}}"
    )
    assert_exact(text, np.roll(X, [-s for s in shifts], (0, 1)), X)


def test_dynamic_shapes_are_left_alone() -> None:
    text = "r = f32[<=3] shuffle(f32[<=3] x), dimensions={0}, mode=rotate, shifts={1}"
    with pytest.raises(AssertionError, match="nothing expands"):
        expanded(parse_module(text))
