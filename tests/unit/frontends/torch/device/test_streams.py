"""Streams and events: one order of programs, which can be waited for and timed."""

import pytest

torch = pytest.importorskip("torch")

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")


def test_streams_are_one_order() -> None:
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        x = torch.ones(3, device="npu") + 1
    stream.wait_stream(torch.npu.current_stream())
    stream.wait_event(stream.record_event())
    assert stream == torch.npu.default_stream() and stream.query()
    assert xladev.torch.report().ran == 1
    stream.synchronize()
    assert x.tolist() == [2, 2, 2]


def test_events_measure_time() -> None:
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    kept = torch.ones(50, 50, device="npu") @ torch.ones(50, 50, device="npu")
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0 and end.query()
    assert xladev.torch.report().ran == 1
    del kept


def test_an_event_without_time_starts_the_work() -> None:
    kept = torch.ones(3, device="npu") + 1
    event = torch.npu.Event()
    event.record(torch.npu.current_stream())
    event.wait()
    assert xladev.torch.report().ran == 1
    del kept
