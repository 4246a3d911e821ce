"""Bisects a program: the fewest instructions, with their inputs, that still fail the same way.

Where the passes are at fault, it names the one: of the SDK, of a backend, of forming kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.testing.debug.forms import forms_of
from xladev.testing.debug.steps import wrong_step
from xladev.testing.debug.suspect import Suspect
from xladev.testing.reduce import ReducedProgram, reduce_module
from xladev.testing.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection found.

    Attributes:
        verdict: on the whole program.
        reduction: the small program; None if nothing is wrong with the whole one.
        last: the verdict on the small program.
        step: the pass after which the small program means something else; empty if there is none.
        finding: what it means then.
    """

    verdict: Verdict
    reduction: ReducedProgram | None = None
    last: Verdict = Verdict()
    step: str = ""
    finding: str = ""


def bisect(
    suspect: Suspect,
    module: HloModule,
    arguments: Sequence[Value],
    *,
    budget_s: float = 120.0,
    target: CompileTarget | None = None,
) -> Bisection:
    """Shrinks a program that fails on a suspect.

    A failure stays the same while its kind does, and, for errors, their code.

    Args:
        suspect: runs each candidate.
        module: the program.
        arguments: one value per parameter.
        budget_s: seconds after which the smallest program so far is taken.
        target: the suspect's platform, as the compiler sees it; None if passes are not asked for.
    """
    whole = suspect.judge(module, arguments)
    if not whole.is_wrong:
        return Bisection(whole)

    def same(candidate: HloModule, values: Sequence[Value]) -> bool:
        return suspect.judge(candidate, values).resembles(whole)

    reduction = reduce_module(module, arguments, same, budget_s=budget_s)
    last = suspect.judge(reduction.module, reduction.arguments)
    if target is None:
        return Bisection(whole, reduction, last)
    step, finding = _step(reduction, target, suspect.options)
    return Bisection(whole, reduction, last, step, finding)


def _step(
    reduction: ReducedProgram, target: CompileTarget, options: CompileOptions
) -> tuple[str, str]:
    """The pass that is at fault, and what it does; empty if passes are right, or one fails."""
    try:
        found = wrong_step(forms_of(reduction.module, target, options), reduction.arguments)
    except XladevError:  # the verdict has it
        return "", ""
    return ("", "") if found is None else (found[0].step, str(found[1]))
