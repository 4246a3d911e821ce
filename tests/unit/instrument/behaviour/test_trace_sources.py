"""Sources of events, such as native code, are started only for who wants them."""

from __future__ import annotations

import pytest

from xladev.instrument import TraceEvent, tracing


def test_a_trace_without_sources_leaves_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    class Source:
        def start(self) -> None:
            started.append("start")

        def position(self) -> int:
            return 0

        def events(self, since: int) -> tuple[list[TraceEvent], int]:
            return [], 0

        def stop(self) -> None:
            started.append("stop")

    monkeypatch.setattr("xladev.instrument.trace._sources", (Source(),))
    with tracing(sources=False):
        assert started == []
        with tracing():
            assert started == ["start"]
        assert started == ["start", "stop"]
        with tracing(sources=False), tracing():
            pass
    assert started == ["start", "stop"] * 2
