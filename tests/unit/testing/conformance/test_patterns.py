"""What wrong elements have in common is named; results that are right have no pattern."""

from collections.abc import Callable

import numpy as np
import pytest

from xladev.testing.conformance.patterns import pattern_of

WANT = np.arange(1, 33 * 33 + 1, dtype=np.float32).reshape(33, 33) ** 1.5


def changed(change: Callable[[np.ndarray], object]) -> np.ndarray:
    got = WANT.copy()
    change(got)
    return got


def last_tile(a: np.ndarray) -> None:
    a[:, 32:] = 0


def last_rows(a: np.ndarray) -> None:
    a[16 * 2 :] = 5


PATTERNS = {
    "all nan": np.full_like(WANT, np.nan),
    "transposed": WANT.T.copy(),
    "off by one along dimension 0": np.roll(WANT, 1, 0),
    "off by one along dimension 1": np.roll(WANT, -1, 1),
    "reversed along dimension 0": WANT[::-1].copy(),
    "only the last index of dimension 1": changed(last_tile),
    "only the last index of dimension 0": changed(last_rows),
    "every 4th index of dimension 0": changed(lambda a: a.__setitem__(slice(None, None, 4), 0)),
    "sign flipped": -WANT,
    "2 times what is wanted": 2 * WANT,
    "zero where wrong": changed(lambda a: a.__setitem__((3, 5), 0)),
}


@pytest.mark.parametrize("words", PATTERNS)
def test_pattern(words: str) -> None:
    got = PATTERNS[words]
    assert words in pattern_of(got, WANT, got != WANT)


@pytest.mark.parametrize(("size", "tile"), [(40, 32), (37, 32), (24, 16), (130, 128)])
def test_the_last_tile_is_named(size: int, tile: int) -> None:
    want = np.arange(3.0 * size).reshape(3, size) ** 1.5 + 1
    got = want.copy()
    got[:, (size - 1) // tile * tile :] *= 1.25
    assert f"the last tile of {tile} in dimension 1" in pattern_of(got, want, got != want)


def test_lost_nan() -> None:
    want = np.array([1, np.nan, 3, np.nan], np.float32)
    got = np.array([1, 0, 3, 0], np.float32)
    assert "nan is lost" in pattern_of(got, want, np.array([False, True, False, True]))


def test_flushed_subnormals() -> None:
    want = np.array([1e-40, 1, -1e-41, 2], np.float32)
    got = np.array([0, 1, 0, 2], np.float32)
    assert "subnormals become zero" in pattern_of(got, want, got != want)


def test_nothing_wrong_has_no_pattern() -> None:
    assert pattern_of(WANT, WANT, np.zeros(WANT.shape, bool)) == ""
