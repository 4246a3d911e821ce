"""What a profiled block records of real programs, and what becomes of the file."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.programs import ExportedProgram
from tests.unit.profiling.timeline.samples import CHAIN, LOOP, ONE, X
from xladev.client import compile
from xladev.errors import ExecutionError, FileError
from xladev.instrument import TraceEvent, tracing
from xladev.profiling.timeline import Timeline, profile
from xladev.profiling.timeline.check import check_trace
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.tables import ask, open_tables


def of(timeline: Timeline, category: str) -> list[TraceEvent]:
    return [e for e in timeline.events if e.category == category]


@pytest.mark.parametrize("platform", ["cpu", "npu", "interpreter"])
def test_a_program_is_traced_from_its_compilation_to_its_kernels(
    platform: str, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    with profile(path) as timeline:
        program = compile(CHAIN, platform)
        np.asarray(program(X))
    assert check_trace(read_trace(path)) == []
    assert [e.name for e in of(timeline, "compile")] == ["chain"]
    assert [e.name for e in of(timeline, "cluster")] == ["chain"]
    assert all(e.track.startswith(program.devices[0].name) for e in of(timeline, "cluster"))


@pytest.mark.parametrize("platform", ["cpu", "npu"])
def test_kernels_say_what_they_stand_for_and_cost(platform: str) -> None:
    program = compile(CHAIN, platform)
    with profile() as timeline:
        np.asarray(program(X))
    kernels = of(timeline, "kernel")
    assert sum(e.args["flops"] + e.args["transcendentals"] for e in kernels) == 8 * 8 * (16 + 1 + 1)
    product = next(e for e in kernels if e.args.get("op_name") == "model/product")
    assert product.args["source"] == "model.py:7"
    assert product.args["hlo_module"] == "chain"
    (cluster,) = of(timeline, "cluster")
    end = cluster.start_ns + cluster.duration_ns
    assert all(cluster.start_ns <= e.start_ns <= e.start_ns + e.duration_ns <= end for e in kernels)


def test_the_npu_counts_cycles_of_each_kernel() -> None:
    program = compile(CHAIN, "npu")
    with profile() as timeline:
        np.asarray(program(X))
    assert all(e.args["cycles"] > 0 for e in of(timeline, "kernel"))
    assert any(e.args["matrix cycles"] > 0 for e in of(timeline, "kernel"))


def test_calls_without_python_are_traced_and_stay_so() -> None:
    program = compile(CHAIN, "cpu")
    for _ in range(5):
        program(X)
    with profile() as timeline:
        for _ in range(3):
            program(X)
    document = timeline.to_json()
    launches = [e for e in document["traceEvents"] if e.get("cat") == "launch"]
    assert [e["args"]["way"] for e in launches] == ["native"] * 3
    assert len([e for e in document["traceEvents"] if e["ph"] == "s"]) == 3
    assert len(of(timeline, "cluster")) == 3
    before = len(timeline.events)
    program(X)
    assert len(timeline.events) == before


def test_each_turn_of_a_loop_has_its_kernels() -> None:
    program = compile(LOOP, "cpu")
    with profile() as timeline:
        program(ONE)
    assert len([e for e in of(timeline, "kernel") if "w" in e.name.split(".")]) == 1000
    assert timeline.dropped == 0


def test_what_does_not_fit_is_dropped_and_told(tmp_path: Path) -> None:
    program = compile(LOOP, "cpu")
    path = tmp_path / "trace.json"
    with profile(path, most_events=100) as timeline:
        program(ONE)
    assert len(timeline.events) == 100
    assert timeline.dropped > 1000
    document = read_trace(path)
    assert document["otherData"]["dropped"] == timeline.dropped
    assert check_trace(document) == []


def test_blocks_nest_and_both_see_what_happens_within() -> None:
    program = compile(CHAIN, "cpu")
    with profile() as outer:
        program(X)
        with profile() as inner, tracing() as innermost:
            program(X)
        program(X)
    found = [len(of(t, "cluster")) for t in (outer, inner)]
    assert found == [3, 1]
    assert len([e for e in innermost.events if e.category == "launch"]) == 1


def test_threads_have_rows_of_their_own() -> None:
    program = compile(CHAIN, "cpu")
    program(X)
    barrier = threading.Barrier(5)

    def work() -> None:
        program(X)
        barrier.wait()
        barrier.wait()

    workers = [threading.Thread(target=work, name=f"w/{n}") for n in range(4)]
    with profile() as timeline:
        for worker in workers:
            worker.start()
        barrier.wait()
    barrier.wait()
    for worker in workers:
        worker.join()
    document = timeline.to_json()
    assert check_trace(document) == []
    assert len(of(timeline, "cluster")) == 4
    names = {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert {f"w|{n}" for n in range(4)} <= names


def test_memory_is_counted_up_and_down() -> None:
    with profile() as timeline:
        program = compile(CHAIN, "npu")
        kept = program(X)
        np.asarray(kept)
        del kept
        program.devices[0].memory_stats()
    values = [e.args["value"] for e in of(timeline, "counter") if e.track == "template_npu:0"]
    assert max(values) >= 2 * X.nbytes
    assert values[-1] < max(values)


def test_an_exception_leaves_the_file_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    program = compile(CHAIN, "cpu")
    with pytest.raises(KeyError), profile(path):
        program(X)
        raise KeyError
    assert check_trace(read_trace(path)) == []


def test_a_child_forked_in_the_block_leaves_the_file_alone(tmp_path: Path) -> None:
    code = f"""
import os, xladev
with xladev.profile({str(tmp_path / "trace.json")!r}):
    child = os.fork()
    if child:
        os._exit(os.waitpid(child, 0)[1])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_is_refused_before_the_block(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "trace.json", tmp_path):
        with pytest.raises(FileError, match="cannot write"), profile(path):
            pytest.fail("the block ran")


def _full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trace.json"
    path.write_text("before")
    program, results = compile(CHAIN, "cpu"), []
    monkeypatch.setattr("xladev.compiler.cache.whole_file.os.replace", _full)
    with pytest.raises(FileError, match="No space left"), profile(path) as timeline:
        results.append(program(X))
    assert (path.read_text(), len(list(tmp_path.iterdir()))) == ("before", 1)
    assert np.asarray(results[0]).shape == X.shape
    assert of(timeline, "cluster")
    with pytest.raises(ExecutionError), profile(path):
        raise ExecutionError("what ended the block matters more")
    assert "No space left" in caplog.text


def test_a_compressed_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    with profile(path):
        compile(CHAIN, "cpu")(X)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    document = read_trace(path)
    assert ask(open_tables(document), "SELECT count(*) > 0 FROM slices WHERE cat = 'kernel'")[
        1
    ] == [(1,)]


def test_the_document_is_plain_json() -> None:
    with profile() as timeline:
        compile(CHAIN, "cpu")(X)
    assert json.loads(json.dumps(timeline.to_json()))["otherData"]["producer"] == "xladev"


WHOLE = (
    "mnist_softmax_train",
    "transformer_block_fwd_bwd",
    "heat_stencil_fori",
    "lstm_scan_fwd_bwd",
)


@pytest.mark.parametrize("platform", ["cpu", "npu"])
@pytest.mark.parametrize("name", WHOLE)
def test_traces_of_whole_programs_keep_the_schema_and_answer_questions(
    programs_dir: Path, name: str, platform: str
) -> None:
    exported = ExportedProgram(programs_dir, name)
    with profile() as timeline:
        program = compile(exported.module(), platform)
        assert exported.problem(program) == ""
    document = timeline.to_json()
    assert check_trace(document) == []
    database = open_tables(document)
    (kernels,) = ask(database, "SELECT count(*) FROM slices WHERE cat = 'kernel'")[1][0]
    assert kernels > 5
    orphans = "SELECT count(*) FROM flows WHERE start IS NULL OR end IS NULL"
    assert ask(database, orphans)[1] == [(0,)]
