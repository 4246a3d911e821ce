"""What theory says of the cuts of a small model, against sums by hand."""

import pytest

from benchmarks.sharded_training import WAYS, held, theory, traffic_line

SIZES = {
    "weights": {"embedding": 800, "position": 160, "up": 3200},
    "activations": 1600,
    "words": 64,
    "layers": 3,
    "counts": {"all-reduce": 2},
    "nbytes": {"all-reduce": 14574.0},
}


def test_bytes_received() -> None:
    expected = {
        "data": 2 * 7 / 8 * 4164,
        "tensor": 4 * 3 * 2 * 3 / 4 * 800 + 3200 / 4 + 960 + 4,
        "sequence": 4 * 3 * 3 / 4 * 800 + 2 * 7 / 8 * 4164,
        "optimiser": 7 / 8 * (2 * 3200 + 960 + 4160 + 2 * 4),
    }
    assert {way: theory(way, SIZES) for way in WAYS} == pytest.approx(expected)


def test_bytes_held() -> None:
    expected = {
        "data": 3 * 4160 + 4 + 8,
        "tensor": 3 * (800 + 960) + 4 + 32,
        "sequence": 3 * 4160 + 4 + 8,
        "optimiser": 3 * 520 + 4 + 8,
    }
    assert {way: held(way, SIZES) for way in WAYS} == expected


def test_a_row_has_counts_bytes_and_the_ratio() -> None:
    assert traffic_line("data", SIZES) == (
        "| data | 2: 14,574 |  |  |  |  | 14,574 | 7,287 | 2.00 |"
    )
