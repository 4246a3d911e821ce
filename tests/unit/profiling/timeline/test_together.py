"""Timelines of several processes in one document."""

import json
import os
import time

import pytest

from tests.tools.transports import connected, in_threads
from xladev.instrument import TraceEvent
from xladev.profiling.timeline import profile
from xladev.profiling.timeline.chrome import chrome_trace
from xladev.profiling.timeline.together import gather_timelines, merged
from xladev.runtime.distributed.clocks import clock_offsets
from xladev.runtime.distributed.job import Job

_LAUNCH = TraceEvent("m", "launch", 2_000_000, 500_000, "MainThread", leads_to=1)
_KERNEL = TraceEvent("k", "kernel", 2_100_000, 1_000, "npu:0/stream", follows=1)


def document(start_ns, *events):
    facts = {"pid": os.getpid(), "start_perf_counter_ns": start_ns, "dropped": 1}
    return chrome_trace(events, start_ns, facts)


@pytest.fixture
def jobs():
    transports = connected(3)
    yield [Job(t) for t in transports]
    for transport in transports:
        transport.close()


def test_times_are_those_of_the_first_process():
    first = document(1_000_000, _LAUNCH)
    second = document(1_500_000, _LAUNCH)
    whole = merged([first, second], [(0, 0), (-200_000, 7)])
    found = {e["pid"]: e["ts"] for e in whole["traceEvents"] if e["ph"] == "X"}
    assert found == {
        os.getpid(): 1000.0,
        os.getpid() + 1000: 800.0,
    }  # the second one's clock is 200 us ahead
    assert whole["otherData"]["dropped"] == 2
    assert whole["otherData"]["processes"][1] == {
        "pid": os.getpid(), "clock_offset_ns": -200_000, "clock_error_ns": 7,
    }  # fmt: skip


def test_rows_and_arrows_are_each_process_s_own():
    whole = merged([document(0, _LAUNCH, _KERNEL) for _ in range(2)], [(0, 0)] * 2)
    names = [e["args"]["name"] for e in whole["traceEvents"] if e["name"] == "process_name"]
    assert names == ["process 0: host", "process 0: npu:0", "process 1: host", "process 1: npu:0"]
    assert len({e["pid"] for e in whole["traceEvents"]}) == 4
    assert {e["id"] for e in whole["traceEvents"] if "id" in e} == {1, (1 << 40) + 1}


def test_nothing_begins_before_zero():
    early = TraceEvent("e", "launch", 0, 10, "MainThread")
    whole = merged([document(0, _LAUNCH), document(0, early)], [(0, 0), (-5_000, 0)])
    assert min(e["ts"] for e in whole["traceEvents"] if "ts" in e) == 0


def test_clocks_that_differ(jobs):
    ahead = (0, 3_000_000_000, -5_000_000_000)

    def work(p):
        return clock_offsets(jobs[p], bytes(8), lambda: time.perf_counter_ns() + ahead[p])

    found, *others = in_threads([lambda p=p: work(p) for p in range(3)])
    assert others == [[], []]
    for (offset, error), want in zip(found, ahead, strict=True):
        assert abs(offset + want) <= error + 1


def test_all_gather_at_the_first(jobs):
    documents = [document(0, _LAUNCH) for _ in range(3)]
    found = in_threads([lambda p=p: gather_timelines(jobs[p], documents[p]) for p in range(3)])
    assert found[1:] == [None, None]
    assert sum(e["name"] == "m" and e["ph"] == "X" for e in found[0]["traceEvents"]) == 3


def test_alone_it_is_saved(tmp_path):
    with profile() as timeline:
        pass
    timeline.save_together(tmp_path / "t.json")
    assert "traceEvents" in json.loads((tmp_path / "t.json").read_text())
