"""A softmax along one dimension, as programs spell it: the patterns, and what they captured.

Reshapes, transposes and conversions between types of floats may stand between its parts. Rows whose
scores are all -inf are NaN, or zeros where the program asks for them (torch's decomposition does).
"""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.reductions import Reduction, reduction_of
from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.splats import all_elements

_VIEWS = ("reshape", "transpose")
_BETWEEN = (*_VIEWS, "convert")
_LOWEST = float("-inf")


def _reductions(opcode: str, start: float) -> m.Condition:
    def is_so(i: HloInstruction) -> bool:
        reduction = reduction_of(i)
        starts = (0.0, -0.0) if start == 0 and i.shape.element_type.is_float else (start,)
        begins = any(all_elements(i.operands[1], each) for each in starts)
        return reduction is not None and reduction.opcode == opcode and begins

    return is_so


def _behind(found: m.Pattern) -> m.Pattern:
    return found.behind(*_BETWEEN)


def _row(opcode: str, start: float, of: m.Pattern, capture: str) -> m.Pattern:
    """A reduction of each row, for each of its elements."""
    reduction = m.Reduce(of, m.Op(), capture=capture)
    reduction = reduction.where(_reductions(opcode, start), f"a reduce by {opcode} from {start}")
    return _behind(m.Broadcast(_behind(reduction)))


_SCORES = _behind(m.Op("scores"))
_EXPONENTIALS = _behind(
    m.Exp(
        _behind(m.Subtract(_SCORES, _row("maximum", _LOWEST, _SCORES, "greatest"))),
        capture="exponentials",
    )
)
SOFTMAX = _behind(m.Divide(_EXPONENTIALS, _row("add", 0.0, _behind(m.Op("exponentials")), "total")))
"""Exponentials of scores less the greatest of their row, divided by their sum."""

_HIDDEN = [
    m.Compare(*sides).having(direction="EQ")
    for sides in ((_SCORES, m.All(_LOWEST)), (m.All(_LOWEST), _SCORES))
]
_SEEN = [
    m.Compare(*sides).having(direction="NE")
    for sides in ((_SCORES, m.All(_LOWEST)), (m.All(_LOWEST), _SCORES))
]
_SEEN += [m.Not(each.behind(*_VIEWS)) for each in _HIDDEN]
_ROWS_HIDDEN = [
    *(m.Reduce(each.behind(*_VIEWS), m.All(1)).where(_reductions("and", 1), "a reduce by and")
      for each in _HIDDEN),
]  # fmt: skip
_ROWS_SEEN = [
    m.Reduce(each.behind(*_VIEWS), m.All(0)).where(_reductions("or", 0), "a reduce by or")
    for each in _SEEN
]
_ROWS_HIDDEN += [m.Not(each.behind(*_VIEWS)) for each in _ROWS_SEEN]


def _of_rows(found: m.Pattern) -> m.Pattern:
    return m.Broadcast(found.behind(*_VIEWS)).behind(*_VIEWS)


_GUARDED = [
    *(_behind(m.Select(_of_rows(each), m.All(0), SOFTMAX)) for each in _ROWS_HIDDEN),
    *(_behind(m.Select(_of_rows(each), SOFTMAX, m.All(0))) for each in _ROWS_SEEN),
]
"""A softmax that is zero in rows all of whose scores are -inf."""


@dataclass(frozen=True, slots=True)
class Softmax:
    """The parts of a softmax.

    Attributes:
        scores: what it is of.
        greatest, total: how rows of scores, and of their exponentials, are reduced.
        is_guarded: whether rows whose scores are all -inf are zeros, not NaN.
        within: its instructions, from the weights down to the scores.
    """

    scores: HloInstruction
    greatest: Reduction
    total: Reduction
    is_guarded: bool
    within: frozenset[HloInstruction]


def softmax_of(weights: HloInstruction) -> Softmax | None:
    """The softmax that an instruction computes; None if it is none."""
    for pattern in (SOFTMAX, *_GUARDED):
        found = pattern.match_all(weights)
        if found is None:
            continue
        captures, within = found
        greatest, total = reduction_of(captures["greatest"]), reduction_of(captures["total"])
        if greatest is None or total is None or not all(_keeps_floats(i) for i in within):
            return None
        is_guarded = pattern is not SOFTMAX
        return Softmax(captures["scores"], greatest, total, is_guarded, frozenset(within))
    return None


def _keeps_floats(i: HloInstruction) -> bool:
    """False for a conversion that is no rounding of floats."""
    types = (i.shape.element_type, i.operands[0].shape.element_type) if i.operands else ()
    return i.opcode != "convert" or all(t.is_float for t in types)
