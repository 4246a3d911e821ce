"""What one custom-call target is: shape check, meaning, traits, and optionally plain HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xladev.hlo.attributes import Sharding
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opdef import EvaluateFn, OpCall, Tolerance


class Appender(Protocol):
    """What an expansion builds with; `HloBuilder` is one."""

    def op(self, opcode: str, *operands: HloInstruction, **attrs: Any) -> HloInstruction:
        """Appends one instruction."""
        ...


CheckFn = Callable[[OpCall], None]
ExpandFn = Callable[[Appender, HloInstruction, Sequence[HloInstruction]], HloInstruction]


@dataclass(frozen=True, slots=True)
class DividedCall:
    """What a call becomes on one of several devices.

    Attributes:
        computation: takes one device's parts of the operands, and gives its parts of the results:
            an array, or a tuple of several. It may have collectives between partitions.
        operands: how each operand has to be cut.
        results: how each array of the result is cut.
    """

    computation: HloComputation
    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


DivideFn = Callable[[HloInstruction, tuple[Sharding, ...], tuple[Sharding, ...]], DividedCall]
"""Takes a call, how its operands are cut, and how its results are wanted."""


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One target.

    Attributes:
        target: its name, as ``custom_call_target`` spells it.
        summary: one sentence for the reference page.
        evaluate: its meaning, as of an opcode; None if it has none on the host.
        check: raises a ShapeError (`OpCall.fail`) for operands or results that do not fit.
        expand: the same in plain HLO: appends to a builder and gives the result.
        side_effect: True if it may not be removed, merged or reordered.
        tolerance: how closely a backend must agree with ``evaluate``.
        divide: how the SPMD partitioner divides it over devices; None: by its sharding rule, or
            computed whole on every device.
        problem_rank: how many last dimensions of the first operand are one problem of a batch,
            along whose dimensions, the first ones of all operands and results, devices divide the
            call; None: it has no batch.
    """

    target: str
    summary: str
    evaluate: EvaluateFn | None = None
    check: CheckFn | None = None
    expand: ExpandFn | None = None
    side_effect: bool = False
    tolerance: Tolerance = Tolerance.EXACT
    divide: DivideFn | None = None
    problem_rank: int | None = None
