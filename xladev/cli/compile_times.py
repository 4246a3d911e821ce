"""Where the time of a compilation went: its passes, LLVM's steps, and what is between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xladev.instrument import TraceEvent

COUNTED = ("pass", "codegen")
"""Categories of events that are told apart; all other time is ``rest``."""
SLOWEST = 5


def compile_times(events: Sequence[TraceEvent], compile_s: float) -> dict[str, float]:
    """Seconds by step: of passes and of code generation, without what they contain.

    Args:
        events: of the compilation.
        compile_s: how long all of it took.
    """
    counted = [e for e in events if e.category in COUNTED]
    counted.sort(key=lambda e: (e.track, e.start_ns, -e.duration_ns))
    own = Counter({id(e): e.duration_ns for e in counted})
    around: list[TraceEvent] = []
    for event in counted:
        while around and not _contains(around[-1], event):
            around.pop()
        if around:
            own[id(around[-1])] -= event.duration_ns
        around.append(event)
    seconds = Counter[str]()
    for event in counted:
        name = f"pass {event.name}" if event.category == "pass" else event.name
        seconds[name] += own[id(event)]
    found = {name: ns / 1e9 for name, ns in seconds.most_common()}
    return {**found, "rest": max(compile_s - sum(found.values()), 0.0)}


def _contains(outer: TraceEvent, inner: TraceEvent) -> bool:
    if outer.track != inner.track or outer.start_ns > inner.start_ns:
        return False
    return inner.start_ns + inner.duration_ns <= outer.start_ns + outer.duration_ns


def shown_compile_times(times: dict[str, float]) -> list[str]:
    """Lines: the steps, then the slowest passes."""
    passes = {name: s for name, s in times.items() if name.startswith("pass ")}
    steps = {"passes": sum(passes.values())} if passes else {}
    steps |= {name: s for name, s in times.items() if name not in passes}
    lines = [f"compilation: {_listed(steps)}"]
    slowest = dict(list(passes.items())[:SLOWEST])
    if slowest:
        lines.append(f"slowest passes: {_listed({n[5:]: s for n, s in slowest.items()})}")
    return lines


def _listed(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {1e3 * s:.1f} ms" for name, s in seconds.items())
