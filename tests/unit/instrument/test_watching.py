"""One word says whether anybody traces or counts."""

from __future__ import annotations

import ctypes

from xladev.instrument import collect_counters, tracing, watchers_address


def watchers() -> int:
    return ctypes.c_int64.from_address(watchers_address()).value


def test_traces_and_collections_are_watchers_while_they_are_open():
    before = watchers()
    with tracing():
        assert watchers() == before + 1
        with collect_counters(), tracing():
            assert watchers() == before + 3
    assert watchers() == before


def test_a_block_that_raises_stops_watching():
    before = watchers()
    try:
        with tracing(), collect_counters():
            raise KeyError
    except KeyError:
        pass
    assert watchers() == before
