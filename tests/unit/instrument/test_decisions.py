"""Decisions are told to whoever collects, and to nobody else."""

from xladev.instrument import Decision, collect_decisions, decision


def test_only_collectors_are_told() -> None:
    decision("step", "before", "nobody listens")
    with collect_decisions() as outer:
        decision("step", "a", "why")
        with collect_decisions() as inner:
            decision("step", "b", "because")
    decision("step", "after", "nobody listens")
    assert outer == [Decision("step", "a", "why"), Decision("step", "b", "because")]
    assert inner == [Decision("step", "b", "because")]
