"""What theory says of the cuts of a small model, by hand, and what a step moves, as written."""

import json

import pytest

from benchmarks.sharded_training import PAGE, WAYS, held, memory_line, theory, traffic_line
from tests.tools.jax_child import run_jax

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


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_devices_receive_and_hold_what_the_page_says(way: str) -> None:
    code = "import json; from benchmarks.sharded_training_child import measured; "
    code += f"print(json.dumps(measured({way!r})))"
    sizes = json.loads(run_jax(code, timeout_s=500, XLADEV_CPU_DEVICES="8"))
    page = PAGE.read_text("utf-8")
    told = "python -m benchmarks.sharded_training --write"
    assert traffic_line(way, sizes) in page, told
    assert sum(sizes["nbytes"].values()) < 1.75 * theory(way, sizes)
    start = memory_line(way, sizes)
    line = next((line for line in page.splitlines() if line.startswith(start)), "")
    assert line, told
    peak = int(line.split("|")[-2].replace(",", ""))
    assert sizes["peak"] <= 1.1 * peak, "a step needs more memory"
