"""Trace events and counters."""

import threading

import pytest

from xladev import instrument
from xladev.instrument import trace


def test_nothing_is_recorded_while_off():
    with instrument.trace_scope("x"):
        pass
    with instrument.tracing() as trace:
        pass
    assert trace.events == []


def test_scopes_nest_and_carry_arguments():
    with instrument.tracing() as trace:
        outside = instrument.trace_scope("outer", "compile")
        with outside, instrument.trace_scope("inner", "pass", instructions=3):
            pass
        instrument.trace_event("kernel", "kernel", 5, 7, "npu:0/compute", flops=9)
    inner, outer, kernel = trace.events
    assert (inner.name, inner.category, dict(inner.args)) == ("inner", "pass", {"instructions": 3})
    assert outer.start_ns <= inner.start_ns
    assert inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns
    assert outer.track == threading.current_thread().name
    assert (kernel.start_ns, kernel.duration_ns, kernel.track) == (5, 7, "npu:0/compute")


def test_a_scope_that_raises_is_recorded():
    with pytest.raises(ValueError), instrument.tracing() as trace, instrument.trace_scope("x"):
        raise ValueError
    assert [e.name for e in trace.events] == ["x"]


def test_counters_count_only_while_collected():
    instrument.counter("a")
    with instrument.collect_counters() as outer:
        instrument.counter("a")
        with instrument.collect_counters() as inner:
            instrument.counter("a", 5)
            assert instrument.counters() == {"a": 5}
    instrument.counter("a")
    assert (outer["a"], inner["a"]) == (6, 5)
    assert instrument.counters() == {}


class BrokenSource:
    """A source that fails when it is asked."""

    def __init__(self):
        self.running = False

    def start(self):
        self.running = True

    def position(self):
        return 0

    def events(self, since):
        raise ValueError("damaged")

    def stop(self):
        self.running = False


def test_a_source_that_fails_is_stopped(monkeypatch):
    source = BrokenSource()
    monkeypatch.setattr(trace, "_sources", (source,))
    with pytest.raises(ValueError, match="damaged"), trace.tracing():
        assert source.running
    assert not source.running


def test_what_threads_add_while_others_settle_is_kept():
    kept = trace.Trace()
    threads = [
        threading.Thread(target=lambda: [kept.add_later("a", lambda: [EVENT]) for _ in range(2000)])
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        kept.settle("a")
        kept.settle("b")
    assert len(kept.events) == 4000


EVENT = trace.TraceEvent("e", "kernel", 0, 1, "t")
