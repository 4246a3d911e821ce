"""The schema takes what keeps it, and names what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.profiling.timeline.samples import good_trace
from xladev.profiling.timeline.check import MOST_FAULTS, check_trace

Events = list[dict[str, Any]]


def test_a_good_trace_has_no_faults() -> None:
    assert check_trace(good_trace()) == []


PLANTED: dict[str, tuple[Callable[[Events], Any], str]] = {
    "an unknown phase": (lambda e: e[4].update(ph="Q"), "no such phase: 'Q'"),
    "a time that is text": (lambda e: e[4].update(ts="1"), "ts is '1'"),
    "a negative time": (lambda e: e[4].update(dur=-1.0), "dur is -1.0"),
    "a slice without a category": (lambda e: e[6].pop("cat"), "cat is None"),
    "a kernel without an instruction": (lambda e: e[7]["args"].pop("hlo_op"), "args.hlo_op"),
    "a launch without a device": (lambda e: e[4].pop("args"), "args.device"),
    "a counter of text": (lambda e: e[10].update(args={"value": "much"}), "args is"),
    "a process without a name": (lambda e: e.pop(1), "process 2 has no name"),
    "a row without a name": (lambda e: e.pop(3), "row 2 has no name"),
    "a name said twice": (lambda e: e.insert(0, e[0]), "process_name of 1 is said twice"),
    "times out of order": (lambda e: e.insert(4, e.pop()), "comes after a later event"),
    "slices that do not nest": (lambda e: e[9].update(dur=6.0), "ends after it"),
    "a flow without an end": (lambda e: e.pop(8), "flow 5 does not end"),
    "a flow without a start": (lambda e: e.pop(5), "flow 5 does not start"),
    "a flow that starts twice": (lambda e: e.insert(5, e[5]), "flow 5 has 2 starts"),
    "a flow that starts nowhere": (lambda e: e[5].update(ts=0.5), "outside of any slice"),
    "a flow that ends nowhere": (lambda e: e[8].update(ts=2.7), "ends at no slice"),
    "a flow that goes back": (lambda e: e[5].update(ts=3.0), "ends before it starts"),
    "no event at all": (lambda e: e.append(7), "is no object"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_fault_is_named(what: str) -> None:
    plant, said = PLANTED[what]
    trace = good_trace()
    plant(trace["traceEvents"])
    faults = check_trace(trace)
    assert any(said in fault for fault in faults), faults


def test_another_version_is_a_fault() -> None:
    assert check_trace(good_trace() | {"otherData": {"version": 0}}) == [
        "otherData.version is not 1"
    ]


def test_few_of_many_faults_are_told() -> None:
    trace = good_trace()
    trace["traceEvents"] += [{"ph": "X"}] * 100
    assert len(check_trace(trace)) == MOST_FAULTS + 1
