"""Times of a compilation: each step without what it contains, and a rest."""

from xladev.cli.compile_times import compile_times, shown_compile_times
from xladev.instrument import TraceEvent


def event(name: str, category: str, start: int, stop: int, track: str = "t") -> TraceEvent:
    return TraceEvent(name, category, start * 10**6, (stop - start) * 10**6, track)


EVENTS = (
    event("m", "compile", 0, 100),
    event("pipeline", "pass", 10, 40),
    event("dce", "pass", 15, 25),
    event("dce", "pass", 26, 30),
    event("LLVM code", "codegen", 50, 90),
    event("other", "pass", 12, 20, "another thread"),
)


def test_steps_are_told_apart() -> None:
    times = {name: round(1e3 * s) for name, s in compile_times(EVENTS, 0.1).items()}
    assert times == {
        "pass pipeline": 16, "pass dce": 14, "pass other": 8, "LLVM code": 40, "rest": 22,
    }  # fmt: skip
    assert sum(times.values()) == 100


def test_lines_sum_passes_and_name_the_slowest() -> None:
    lines = shown_compile_times(compile_times(EVENTS, 0.1))
    assert lines == [
        "compilation: passes 38.0 ms, LLVM code 40.0 ms, rest 22.0 ms",
        "slowest passes: pipeline 16.0 ms, dce 14.0 ms, other 8.0 ms",
    ]


def test_a_program_from_the_cache_has_none() -> None:
    assert shown_compile_times(compile_times((), 0.002)) == ["compilation: rest 2.0 ms"]
