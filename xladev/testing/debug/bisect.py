"""Bisects a program: the fewest instructions, with their inputs, that still fail the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.testing.debug.suspect import Suspect
from xladev.testing.reduce import Reduction, reduce_module
from xladev.testing.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection found.

    Attributes:
        verdict: on the whole program.
        reduction: the small program; None if nothing is wrong with the whole one.
        last: the verdict on the small program.
    """

    verdict: Verdict
    reduction: Reduction | None = None
    last: Verdict = Verdict()


def bisect(
    suspect: Suspect,
    module: HloModule,
    arguments: Sequence[Value],
    *,
    budget_s: float = 120.0,
) -> Bisection:
    """Shrinks a program that fails on a suspect.

    A failure stays the same while its kind does, and, for errors, their code.

    Args:
        suspect: runs each candidate.
        module: the program.
        arguments: one value per parameter.
        budget_s: seconds after which the smallest program so far is taken.
    """
    whole = suspect.judge(module, arguments)
    if not whole.is_wrong:
        return Bisection(whole)

    def same(candidate: HloModule, values: Sequence[Value]) -> bool:
        return suspect.judge(candidate, values).resembles(whole)

    reduction = reduce_module(module, arguments, same, budget_s=budget_s)
    return Bisection(whole, reduction, suspect.judge(reduction.module, reduction.arguments))
