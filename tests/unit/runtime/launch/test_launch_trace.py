"""Timelines of backends that tell times, of those that do not, and of those that fail."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, NullStream, add_executable, null_device
from xladev.compiler.plan.operations import TracedOperation
from xladev.instrument import Trace, tracing
from xladev.runtime.launch.launch_trace import COPY, LaunchTrace
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.stream import Reading, Stamp, SynchronousStream

A = np.arange(4, dtype=np.float32)
OPERATION = TracedOperation("dot.1", "dot", "model/dot", "model.py:3", 8, 0, 96, ())


class NullStamp(Stamp):
    """Filled by the stream's worker."""

    def __init__(self) -> None:
        self.reading: Reading | None = None

    def read(self) -> Reading | None:
        return self.reading


class StampedStream(NullStream):
    """A null stream that tells times, and counts the stamps that it has passed."""

    def stamp(self) -> Stamp:
        made = NullStamp()

        def reach() -> None:
            if self.error is None:
                self.passed = getattr(self, "passed", 0) + 1
                made.reading = Reading(time.perf_counter_ns(), {"passed": self.passed})

        self.submit(reach)
        return made


def launch(tier: int = 4, driver: Driver | None = None) -> tuple[Trace, Driver]:
    """One launch of a program that the backend runs as a whole."""
    driver = driver or Driver()
    device = null_device(driver, tier)
    executable = add_executable()
    program = Launchable(device, executable.signature, device.executor.load(executable))
    with tracing() as trace:
        (result,) = program.execute([A, A])
        try:
            np.asarray(result)
        finally:
            device.synchronize()
            deadline = time.monotonic() + 10
            while not clusters(trace) and time.monotonic() < deadline:
                time.sleep(0.001)
    return trace, driver


def clusters(trace: Trace) -> list[tuple[str, str]]:
    return [(e.name, e.track) for e in trace.events if e.category == "cluster"]


def test_a_device_without_times_has_a_slice_as_the_host_saw_it() -> None:
    trace, _ = launch()
    assert clusters(trace) == [("add", "null:0/stream")]
    (event,) = (e for e in trace.events if e.category == "cluster")
    assert event.args["clock"] == "host"


def test_a_synchronous_device_has_a_slice_by_the_hosts_clock() -> None:
    trace, _ = launch(tier=2)
    assert clusters(trace) == [("add", "null:0/stream")]
    (event,) = (e for e in trace.events if e.category == "cluster")
    (enqueue,) = (e for e in trace.events if e.category == "enqueue")
    assert event.follows == enqueue.leads_to != 0
    assert enqueue.start_ns <= event.start_ns


def test_a_device_with_times_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.runtime.null_device.NullStream", StampedStream)
    trace, _ = launch()
    (event,) = (e for e in trace.events if e.category == "cluster")
    assert (event.args["passed"], "clock" in event.args) == (1, False)


def test_a_launch_that_fails_is_no_less_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.runtime.null_device.NullStream", StampedStream)
    driver = Driver()
    driver.fail("run", ValueError("planted"))
    device = null_device(driver)
    executable = add_executable()
    program = Launchable(device, executable.signature, device.executor.load(executable))
    with tracing() as trace:
        (result,) = program.execute([A, A])
        with pytest.raises(Exception, match="null device failed"):
            np.asarray(result)
        device.synchronize()
    assert clusters(trace) == []


def record(fill: Callable[[LaunchTrace], None]) -> Trace:
    with tracing() as trace:
        launched = LaunchTrace(SynchronousStream(), "npu:0", "m", lambda: (OPERATION,))
        fill(launched)
        launched.finish()
    return trace


def test_kernels_and_copies_lie_in_their_program() -> None:
    def fill(launched: LaunchTrace) -> None:
        for operation in (0, COPY, 0):
            with launched.around(operation):
                time.sleep(0.0001)

    events = [e for e in record(fill).events if e.track == "npu:0/stream"]
    assert [(e.name, e.category) for e in events] == [
        ("dot.1", "kernel"),
        ("copy", "copy"),
        ("dot.1", "kernel"),
        ("m", "cluster"),
    ]
    assert events[0].args == OPERATION.to_args("m")
    cluster = events[-1]
    ends = [e.start_ns + e.duration_ns for e in events]
    assert cluster.start_ns == events[0].start_ns
    assert max(ends) == ends[-1] == ends[2]


def test_a_stamp_that_raises_costs_its_slice_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Stamp):
        def read(self) -> Reading | None:
            raise KeyError("planted")

    def fill(launched: LaunchTrace) -> None:
        with launched.around(0):
            pass
        launched._work[0].end = Broken()
        with launched.around(COPY):
            pass

    names = [e.name for e in record(fill).events if e.track == "npu:0/stream"]
    assert names == ["copy", "m"]
    assert "the timeline lacks work of npu:0" in caplog.text
