"""Measuring with peers that work, refuse, crash, hang, or are not there."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cpu.__main__ import parsed, peer_specs
from benchmarks.cpu.measure import Bench, Peers, Plan, difference, norm
from benchmarks.cpu.peer import PeerSpec
from benchmarks.cpu.results import BEFORE, OURS, XLA, RowResult, Store, kept_peers
from benchmarks.cpu.rows import Row

FAKE = "tests.unit.benchmarks.fake_peer"
ROW = Row("small", "kernels", "gelu", {"shape": [4]})
PLAN = Plan(rounds=3, slice_s=0.01, timeout_s=20)


def measured(tmp_path: Path, plan: Plan = PLAN, **modes: str) -> tuple[RowResult, Peers]:
    """One row on fakes, and the peers, ended."""
    specs = [PeerSpec(name, sys.executable, (FAKE, mode)) for name, mode in modes.items()]
    peers = Peers(specs, 1, tmp_path, plan.timeout_s)
    try:
        return Bench(tmp_path, None, plan).measure(ROW, peers), peers
    finally:
        peers.close()


def test_a_row_on_two_peers(tmp_path: Path) -> None:
    result, peers = measured(tmp_path, **{XLA: "slow", OURS: "well"})
    ours, xla = result.peers[OURS], result.peers[XLA]
    assert len(ours.wall) == len(ours.cpu) == len(xla.wall) == 3
    assert ours.compile_s == [0.5, 0.25]
    assert ours.memory["temporary"] == 7
    assert ours.memory["peak"] > 0
    assert ours.differs == xla.differs == ""
    assert result.ratios("wall")[XLA].is_ahead
    assert min(xla.wall) >= 0.005
    assert peers.versions[OURS].startswith("fake 1.0")


def test_who_computes_something_else_is_named(tmp_path: Path) -> None:
    result, _ = measured(tmp_path, **{XLA: "well", OURS: "well", "NumPy": "wrong"})
    assert result.peers[OURS].differs == ""
    assert "result 0 is off by" in result.peers["NumPy"].differs


def test_refusals_and_errors_leave_a_peer_out_of_the_row(tmp_path: Path) -> None:
    result, peers = measured(tmp_path, **{OURS: "well", "A": "refuse", "B": "raise"})
    assert (result.peers["A"].left_out, result.peers["A"].is_refused) == ("not this row", True)
    assert result.peers["B"].left_out == "ValueError: it went wrong"
    assert not result.peers["B"].is_refused
    assert result.ratios("wall") == {}
    assert peers.left_out == {}


@pytest.mark.parametrize(
    ("mode", "said"), [("crash", "crashed: SIGSEGV"), ("exit", "exited with status 3")]
)
def test_a_peer_that_dies_loses_the_row_and_others_go_on(
    tmp_path: Path, mode: str, said: str
) -> None:
    result, peers = measured(tmp_path, **{OURS: "well", "A": mode})
    assert result.peers["A"].left_out == said
    assert result.peers["A"].wall == []
    assert len(result.peers[OURS].wall) == 3
    assert peers.left_out == {}


def test_a_peer_that_died_is_started_again_for_the_next_row(tmp_path: Path) -> None:
    specs = [PeerSpec("A", sys.executable, (FAKE, "crash"))]
    peers = Peers(specs, 1, tmp_path, 20)
    try:
        bench = Bench(tmp_path, None, PLAN)
        bench.measure(ROW, peers)
        assert not peers.is_running("A")
        peers.start()
        assert peers.is_running("A")
    finally:
        peers.close()


def test_a_peer_that_hangs_is_given_up(tmp_path: Path) -> None:
    plan = Plan(rounds=1, slice_s=0.01, timeout_s=3)
    result, _ = measured(tmp_path, plan, **{OURS: "well", "A": "hang"})
    assert "within 3 s" in result.peers["A"].left_out
    assert result.peers[OURS].wall


def test_missing_libraries_and_interpreters_are_named(tmp_path: Path) -> None:
    specs = [
        PeerSpec("library", sys.executable, (FAKE, "missing")),
        PeerSpec("interpreter", str(tmp_path / "python"), (FAKE, "well")),
        PeerSpec("module", sys.executable, (FAKE + "_that_is_not_there", "well")),
    ]
    peers = Peers(specs, 1, tmp_path, 20)
    peers.start()
    assert peers.names == []
    assert peers.left_out["library"] == "no such library"
    assert peers.left_out["interpreter"].startswith("cannot start")
    assert peers.left_out["module"] == "exited with status 1"


def test_programs_without_a_folder_are_refused(tmp_path: Path) -> None:
    peers = Peers([PeerSpec(OURS, sys.executable, (FAKE, "well"))], 1, tmp_path, 20)
    try:
        result = Bench(tmp_path, None, PLAN).measure(Row("p", "programs", "program"), peers)
    finally:
        peers.close()
    assert result.peers[OURS].left_out.startswith("no inputs")


def test_results_are_kept_and_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows")
    assert store.load(ROW, 1) is None
    result, _ = measured(tmp_path, **{OURS: "well"})
    store.save(ROW, result)
    assert Store(tmp_path / "rows").load(ROW, 1) == result
    assert store.load(ROW, 2) is None


def test_slow_rows_get_fewer_rounds_and_fast_ones_more_calls() -> None:
    plan = Plan(rounds=15, slice_s=0.05, row_s=6)
    assert [plan.rounds_of(s) for s in (0.001, 1.0, 10.0)] == [15, 6, 3]
    assert [plan.calls_of(s) for s in (1e-6, 0.01, 1.0)] == [20_000, 5, 1]


def test_differences_of_results() -> None:
    import numpy as np

    one = np.ones(3, np.float32)
    assert difference([one], [one * np.float32(1.001)]) == ""
    assert difference([one], [one, one]) == "1 results, not 2"
    assert difference([one], [one[:2]]) == "result 0 has shape (3,), not (2,)"
    assert difference([one * 2], [one]).startswith("result 0 is off by 1")


def test_results_may_be_compared_by_their_norm() -> None:
    many = np.ones(10_000, np.float32)
    kinked = many.copy()
    kinked[0] = 1.5
    assert difference([kinked], [many]).startswith("result 0 is off by 0.5")
    assert difference([kinked], [many], norm) == ""
    assert difference([many * np.float32(1.02)], [many], norm).startswith("result 0 is off by 2")


def test_another_checkout_is_measured_as_a_peer(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    other = tmp_path / "other"
    other.mkdir()
    for name in ("benchmarks", "tests", "xladev"):
        (other / name).symlink_to(root / name)
    (other / "older.py").write_text(f"import {FAKE} as fake\nfake.serve(fake.Fake)\n")
    options = parsed(["--before", str(other)])
    (spec,) = [s for s in peer_specs(options) if s.name == BEFORE]
    assert spec.root == other and BEFORE not in [s.name for s in peer_specs(parsed([]))]
    for where, names in ((other, [BEFORE]), (root, [])):
        peers = Peers([PeerSpec(BEFORE, sys.executable, ("older", "well"), where)], 1, tmp_path, 20)
        peers.start()
        assert peers.names == names
        peers.close()


def test_versions_of_peers_are_kept(tmp_path: Path) -> None:
    assert kept_peers(tmp_path, {"A": "1"}, {"B": "none"}) == ({"A": "1"}, {"B": "none"})
    assert kept_peers(tmp_path, {"C": "2"}, {}) == ({"A": "1", "C": "2"}, {"B": "none"})
    assert kept_peers(tmp_path, {"A": "3"}, {"D": "gone"})[1] == {"D": "gone"}
