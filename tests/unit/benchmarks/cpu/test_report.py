"""The page and its pictures, from results made up here; and the rows."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cpu.child import Job
from benchmarks.cpu.functions.inputs import INPUTS, made
from benchmarks.cpu.functions.numpy_functions import FUNCTIONS
from benchmarks.cpu.plot import bars, lines
from benchmarks.cpu.report import Facts, best, page, shown_time
from benchmarks.cpu.results import OURS, XLA, PeerResult, RowResult
from benchmarks.cpu.rows import FAMILIES, PROGRAM, chosen, read_rows, read_sweeps
from benchmarks.cpu.statistics import Ratio


def peer(seconds: float, nbytes: int = 1000) -> PeerResult:
    memory = {"temporary": nbytes, "results": 10, "aliased": 10, "packing": 70}
    memory["peak"] = 5_000_000
    return PeerResult([seconds] * 5, [seconds] * 5, [seconds, seconds], [1.0, 1.0], memory)


def row(name: str, xla: float, numpy: float) -> RowResult:
    peers = {XLA: peer(xla, 1000), OURS: peer(1e-3, 200_000), "NumPy": peer(numpy)}
    peers["MKL"] = PeerResult(left_out="not this", is_refused=True)
    peers["PyTorch"] = PeerResult(left_out="crashed: SIGSEGV")
    return RowResult(name, "kernels", 1, 0.5, peers)


def test_the_page_names_what_is_behind_and_what_failed() -> None:
    rows = [row("fast", 2e-3, 4e-3), row("slow", 8e-3, 0.5e-3)]
    text = page(rows, Facts("a machine", {XLA: "jax 1"}, {"ONNX Runtime": "no module"}), ["a.svg"])
    summary = next(line for line in text.splitlines() if line.startswith("| kernels |"))
    assert summary == "| kernels | 1 | 2 | 2.83 | 0 of 2 | 1.00 | 1 of 2 |"
    fast, slow = (
        next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        for name in ("fast", "slow")
    )
    assert "behind" not in fast
    assert fast.startswith("| fast | 1 ms | 2.00 (2.00-2.00) | 4.00 (4.00-4.00) |")
    assert "**behind** NumPy" in slow
    assert "- ONNX Runtime is left out: no module" in text
    assert "- slow, 1 threads, PyTorch: crashed: SIGSEGV" in text
    assert "not this" not in text
    assert "| slow | 200,000 | 1,000 | 70 | **behind** | 5 | 5 |" in text
    assert "![](a.svg)" in text


def test_compile_times_are_compared_cold_and_from_the_cache() -> None:
    (one, other) = row("one", 2e-3, 4e-3), row("other", 8e-3, 4e-3)
    one.peers[OURS].warm_s = [1e-3, 1e-4]
    text = page([one, other], Facts("a machine"))
    lines = [line for line in text.splitlines() if line.startswith(("| one |", "| other |"))]
    assert lines[2].endswith("| 2.00 | 100 us | 20.0 |")
    assert lines[3].endswith("| 4.00 |  |  |") or lines[3].endswith("| 8.00 |  |  |")
    assert "geometric mean: 20.0" in text


def test_errors_are_compared_with_those_of_xla() -> None:
    (one, other) = row("one", 2e-3, 4e-3), row("other", 8e-3, 4e-3)
    for result, ours in ((one, 2e-8), (other, 8e-8)):
        result.peers[OURS].error, result.peers[XLA].error = ours, 1e-8
    text = page([one, other], Facts("a machine"))
    assert "Geometric mean of ours over XLA:CPU's: 4.00." in text
    assert "| one | 1e-08 | 2e-08 |" in text
    assert "## Errors" not in page([row("none", 1e-3, 1e-3)], Facts("a machine"))


def test_a_page_of_nothing() -> None:
    assert "## Summary" in page([], Facts("a machine"))


def test_clocks() -> None:
    assert [Facts("", clock="auto").clock_of(n) for n in (1, 2)] == ["cpu", "wall"]
    assert Facts("", clock="wall").clock_of(1) == "wall"


def test_the_best_peer_is_the_fastest() -> None:
    ratios = {"a": Ratio(2, 1, 3), "b": Ratio(0.5, 0.4, 0.6)}
    assert best(ratios) == ratios["b"]
    assert best({}) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.234e-7, "0.123 us"), (0.00512, "5.12 ms"), (2.5, "2.5 s")]
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert shown_time(seconds) == text


def test_pictures_are_well_formed() -> None:
    series = {"a & b": [(1.0, 1e-6), (10.0, 1e-5)], "one": [(5.0, 2e-6)]}
    ratios = {"x < y": Ratio(0.01, 0.001, 0.02), "z": Ratio(100, 90, 110)}
    for text in (bars("<ratios>", ratios), lines("t", series), lines("none", {})):
        assert ElementTree.fromstring(text).tag.endswith("svg")


def test_every_row_has_arguments() -> None:
    rows = read_rows()
    assert {r.family for r in rows} == set(FAMILIES)
    assert all(r.kind in INPUTS or r.kind == PROGRAM for r in (*rows, *read_sweeps()))
    assert [r.name for r in chosen(rows, ["kernels"], "^gemm 64$")] == ["gemm 64"]


def test_rows_with_constants_are_fed_the_rest() -> None:
    (row,) = chosen(read_rows(), ["kernels"], "^gemm 8x1024x1024, constant$")
    left, right = made(row.name, INPUTS[row.kind](row.parameters))
    job = Job(row.kind, row.parameters, None, 1, [left, right])
    assert job.fed[0] is left
    assert job.constants[0] is right
    assert (len(job.fed), len(job.constants)) == (1, 1)
    whole = Job(row.kind, {}, None, 1, [left, right])
    assert (len(whole.fed), len(whole.constants)) == (2, 0)


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.toml"
    path.write_text(
        '[kernels]\n"a b" = {kind="gelu"}\n"a-b" = {kind="gelu"}\n[layers]\n[programs]\n'
        "[fft]\n[linalg]\n[science]\n[files]\nnames=[]\n"
    )
    with pytest.raises(ValueError, match="share a name: kernels-a-b"):
        read_rows(path)


def test_arguments_are_the_same_every_time_and_fit_their_functions() -> None:
    inputs = INPUTS["gather"]({"rows": 8, "width": 4, "count": 5})
    first, again = made("row", inputs), made("row", inputs)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    function = FUNCTIONS["gather"]({})
    assert function is not None
    assert function(*first).shape == (5, 4)
    assert 0 <= first[1].min() <= first[1].max() < 8
