"""Trace events and counters."""

import threading

import pytest

from xladev import instrument


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
