"""What a compilation decided and how long its steps took, as dumps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from xladev.errors import XladevError
from xladev.instrument import (
    Decision,
    TraceEvent,
    collect_decisions,
    dump,
    dumping,
    tracing,
)


@contextmanager
def dumped_report(name: str) -> Iterator[None]:
    """Dumps ``NAME.decisions.txt`` and ``NAME.timings.txt`` of a block, also of one that fails."""
    if not dumping():
        yield
        return
    with tracing(watch=False, sources=False) as trace, collect_decisions() as decisions:
        try:
            yield
        except BaseException:
            with suppress(XladevError):  # what ended the block matters more
                _dump(name, decisions, trace.events)
            raise
        _dump(name, decisions, trace.events)


def _dump(name: str, decisions: Sequence[Decision], events: Sequence[TraceEvent]) -> None:
    text = _decided(decisions)
    if text:
        dump(name, "decisions.txt", text)
    dump(name, "timings.txt", lambda: _timed(events))


def _decided(decisions: Sequence[Decision]) -> str:
    lines = [f"{d.step}: {d.name}: {d.why}" for d in decisions if d.why]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _timed(events: Sequence[TraceEvent]) -> str:
    """A table by step; steps are within others, so that times do not add up."""
    times, counts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for event in events:
        key = event.category, event.name
        times[key] += event.duration_ns
        counts[key] += 1
    rows = [
        f"{ns / 1e6:12.3f} {counts[key]:6} {key[0]:16} {key[1]}" for key, ns in times.most_common()
    ]
    return "\n".join([f"{'ms':>12} {'times':>6} {'kind':16} step", *rows, ""])
