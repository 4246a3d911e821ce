"""Bytes of weights a second, beside a copy."""

from benchmarks.cpu.report import Facts
from benchmarks.cpu.results import OURS, XLA, PeerResult, RowResult
from benchmarks.models.model_report import page
from benchmarks.models.weights_read import COPY, weights_read, without_copy

FACTS = Facts("a machine", {OURS: "1.0"}, clock="wall")


def decoded(**seconds: float) -> RowResult:
    names = {"ours": OURS, "xla": XLA, "copy": COPY}
    peers = {names[n]: PeerResult(wall=[s] * 5, cpu=[s] * 5) for n, s in seconds.items()}
    if COPY in peers:
        peers[COPY].memory = {"copied": 500_000_000}
    return RowResult("decode, batch 1", "models", 2, 0.5, peers)


def test_rates_stand_beside_that_of_a_copy() -> None:
    shown = weights_read([decoded(ours=0.05, xla=0.1, copy=0.04)], FACTS)
    assert "| decode, batch 1 | 2 | 500 | 10.0 | 5.0 | 12.5 | 0.80 (0.80-0.80) |" in shown


def test_rows_without_a_copy_have_no_rate() -> None:
    assert weights_read([decoded(ours=0.05)], FACTS) == ""


def test_a_copy_is_no_peer() -> None:
    result = decoded(ours=0.05, xla=0.1, copy=0.01)
    assert list(without_copy(result).peers) == [OURS, XLA]
    shown = page([result], FACTS)
    assert "| 2 | 1 | 2.00 | 0 of 1 | 2.00 | 0 of 1 |" in shown and "## Weights read" in shown
