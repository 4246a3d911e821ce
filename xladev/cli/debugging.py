"""What `xladev run --debug` prints: which instruction made the first odd number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xladev.cli.suspects import named
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.testing.debug.anomalies import Anomaly, first_anomaly

_WORDS = {"nan": "NaN", "inf": "infinity", "bounds": "window out of bounds"}


def debug_lines(module: HloModule, inputs: Sequence[Value], kind: str) -> list[str]:
    """What there is to say of a kind of anomaly; empty if there is none of it."""
    first, count = first_anomaly(module, inputs, kind)
    return [] if first is None else list(_lines(first, count, _WORDS[kind]))


def _lines(first: Anomaly, count: int, word: str) -> Iterator[str]:
    yield f"the first {word} is made by {named(first.instruction)}"
    yield f"  {first.detail}"
    if len(first.path) > 1:
        steps = (f"{c.name} (iteration {iteration})" for c, iteration in first.path[1:])
        yield f"  in {', '.join(steps)}"
    yield from (f"  operand {line}" for line in first.operands)
    if count > 1:
        yield f"  {count - 1} more instructions, counted iteration by iteration, made one"


def no_anomaly(kind: str) -> str:
    """What to say where the evaluator met none."""
    return f"no {_WORDS[kind]}, as the interpreter runs the program"
