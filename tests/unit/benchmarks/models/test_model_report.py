"""The page of whole models."""

from benchmarks.cpu.report import Facts
from benchmarks.cpu.results import OURS, XLA, PeerResult, RowResult
from benchmarks.models.model_report import page

FACTS = Facts("a machine", {OURS: "1.0"}, not_measured=("other",), clock="wall")


def peer(seconds: float, **more: object) -> PeerResult:
    facts = {"compile_s": [2.0, 2.0], "first_s": [1.0, 1.0], "memory": {"peak": 5_000_000}} | more
    return PeerResult(wall=[seconds] * 5, cpu=[seconds] * 5, **facts)


def row(threads: int = 1, **peers: PeerResult) -> RowResult:
    named = {{"ours": OURS, "xla": XLA, "vino": "OpenVINO"}[n]: p for n, p in peers.items()}
    return RowResult("net, batch 1", "models", threads, 0.5, named)


def test_who_is_faster_is_named() -> None:
    shown = page([row(ours=peer(0.010), xla=peer(0.020), vino=peer(0.005))], FACTS)
    assert "| net, batch 1 | 10 ms | 2.00 (2.00-2.00) | 0.50 (0.50-0.50) | **behind** |" in shown
    assert "| 1 | 1 | 2.00 | 0 of 1 | 0.50 | 1 of 1 |" in shown
    assert "Not measured yet: other." in shown


def test_first_calls_and_memory() -> None:
    ours = peer(0.010, compile_s=[9.0, 1.0], warm_s=[9.0, 0.25])
    shown = page([row(ours=ours, xla=peer(0.020))], FACTS)
    assert "XLA:CPU's over ours, geometric mean: 1.50." in shown
    assert "| net, batch 1 | 2 s | 3 s | 1.50 | 250 ms |" in shown
    assert "| net, batch 1 | 5 | 5 |" in shown


def test_failures_and_other_results_are_listed() -> None:
    failed = PeerResult(left_out="it crashed")
    other = peer(0.02, differs="result 0 is off by 3")
    shown = page([row(ours=failed, xla=other)], FACTS)
    assert "| net, batch 1 | failed |" in shown
    assert f"- {OURS}: it crashed (net, batch 1)" in shown
    assert f"- {XLA}: result 0 is off by 3 (net, batch 1)" in shown


def test_a_page_of_nothing() -> None:
    assert "# Whole models" in page([], FACTS)
