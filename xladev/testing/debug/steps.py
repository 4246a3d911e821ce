"""Which pass makes a program mean something else: the evaluator runs what each of them leaves."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value
from xladev.testing.debug.forms import ProgramForm
from xladev.testing.differential import Finding, compare_results
from xladev.testing.noise import evaluated


def wrong_step(
    forms: Sequence[ProgramForm], arguments: Sequence[Value]
) -> tuple[ProgramForm, Finding] | None:
    """The first form that means something else than the program as given; by bisection."""
    first = forms[0].module
    if any(shape.is_dynamic for p in first.entry.parameters for _, shape in p.shape.leaves()):
        return None  # padded on the way: the forms take other arguments
    wanted = evaluated(first, arguments)
    finding = _change(first, forms[-1].module, arguments, wanted)
    if finding is None:
        return None
    right, wrong = 0, len(forms) - 1
    while wrong - right > 1:
        middle = (right + wrong) // 2
        found = _change(first, forms[middle].module, arguments, wanted)
        if found is None:
            right = middle
        else:
            wrong, finding = middle, found
    return forms[wrong], finding


def _change(
    first: HloModule, form: HloModule, arguments: Sequence[Value], wanted: Sequence[Array]
) -> Finding | None:
    try:
        found = evaluated(form, arguments)
    except XladevError as error:
        return Finding("error", str(error))
    return compare_results(first, arguments, found, wanted)
