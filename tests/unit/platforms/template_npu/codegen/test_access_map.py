"""Access maps against NumPy's own movement of the positions of elements."""

import random

import numpy as np
import pytest

from xladev.platforms.template_npu.codegen.access_map import (
    AccessMap,
    NotAffineError,
    element_strides,
    identity,
    merged,
)


def positions(at: AccessMap, dims: tuple[int, ...]) -> np.ndarray:
    """The position in row-major order that each iteration uses."""
    offset, steps = at.position(dims)
    grid = np.indices(at.extents)
    return offset + sum(s * g for s, g in zip(steps, grid, strict=True))


def numbered(dims: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(dims))).reshape(dims)


def test_identity_is_row_major():
    assert np.array_equal(positions(identity((3, 4, 5)), (3, 4, 5)), numbered((3, 4, 5)))


def test_transpose_then_slice_then_reverse():
    want = numbered((4, 6)).T[1:6:2, ::-1]
    at = identity((3, 4)).scaled([0, 3], [1, -1], (3, 4))
    at = at.scaled([1, 0], [2, 1], (3, 4)).chosen([1, 0], (6, 4))
    assert np.array_equal(positions(at, (4, 6)), want)


def test_broadcast_repeats():
    at = identity((3, 4, 5)).chosen([1], (3, 4, 5))
    assert np.array_equal(positions(at, (4,)), np.broadcast_to(np.arange(4)[:, None], (3, 4, 5)))


@pytest.mark.parametrize(
    ("dims", "source"),
    [((6, 10), (60,)), ((6, 10), (2, 3, 10)), ((4, 1, 6), (4, 6)), ((12,), (1, 12))],
)
def test_reshapes_that_split_no_variable_are_affine_or_by_position(dims, source):
    at = identity(dims).reshaped(dims)
    assert np.array_equal(positions(at, source), numbered(source).reshape(dims))
    if len(dims) >= len(source):
        assert np.array_equal(positions(at.by_dimension(dims), dims), numbered(dims))


def test_a_variable_that_runs_over_two_dimensions_is_not_affine():
    at = identity((60,)).reshaped((60,))
    with pytest.raises(NotAffineError):
        at.by_dimension((6, 10))


def test_by_dimension_is_right_or_refuses(seed):
    draw = random.Random(seed)
    found = 0
    for _ in range(2000):
        dims = tuple(draw.randrange(1, 5) for _ in range(3))
        extents = tuple(draw.randrange(1, 5) for _ in range(2))
        steps = tuple(draw.choice((0, 1, 2, 3, 4, 6, 8, 12, -1)) for _ in extents)
        at = AccessMap(extents, ((draw.randrange(8), steps),), linear=True)
        size = int(np.prod(dims))
        if not 0 <= positions(at, dims).min() <= positions(at, dims).max() < size:
            continue
        try:
            rows = at.by_dimension(dims)
        except NotAffineError:
            continue
        assert np.array_equal(positions(rows, dims), positions(at, dims))
        for (start, coefficients), n in zip(rows.rows, dims, strict=True):
            last = start + sum(c * (e - 1) for c, e in zip(coefficients, extents, strict=True))
            assert 0 <= start <= last < n
        found += 1
    assert found > 200


def test_merged_loops_touch_the_same_addresses_in_the_same_order(seed):
    draw = random.Random(seed)
    for _ in range(300):
        counts = tuple(draw.randrange(1, 4) for _ in range(4))
        dense = element_strides(counts)
        other = tuple(draw.choice((0, 1, 2, s)) for s in dense)
        loops, columns = merged(counts, (dense, other))
        for before, after in ((dense, columns[0]), (other, columns[1])):
            want = sum(s * g for s, g in zip(before, np.indices(counts), strict=True))
            got = sum(
                (s * g for s, g in zip(after, np.indices(loops), strict=True)), np.zeros(loops)
            )
            assert np.array_equal(np.ravel(want), np.ravel(got))
