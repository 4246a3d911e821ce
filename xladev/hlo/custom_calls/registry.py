"""The registry of custom-call targets: the built-in ones, and those of plugins and users.

Example:
    >>> import numpy as np
    >>> from xladev.hlo.custom_calls.definition import CustomCall
    >>> from xladev.hlo.custom_calls.registry import find, register, unregister
    >>> register(CustomCall("twice", "Doubles.", evaluate=lambda _, __, values: 2 * values[0]))
    >>> find("twice").summary
    'Doubles.'
    >>> unregister("twice")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from threading import Lock
from types import MappingProxyType

from xladev.errors import ArgumentError, EvaluationError, XladevError
from xladev.hlo.custom_calls import (
    buffers,
    cusolver,
    dialects,
    lapack,
    manual,
    markers,
    solvers,
    top_k,
)
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.user_functions import fitted, user_function
from xladev.hlo.literal import Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.shape import Shape

_FAMILIES: tuple[tuple[CustomCall, ...], ...] = (
    buffers.CALLS, dialects.CALLS, lapack.CALLS, cusolver.CALLS, manual.CALLS, markers.CALLS,
    solvers.CALLS, top_k.CALLS,
)  # fmt: skip

BUILT_IN: Mapping[str, CustomCall] = MappingProxyType(
    {call.target: call for calls in _FAMILIES for call in calls}
)
"""The targets that come with xladev."""

_registered: dict[str, CustomCall] = {}
_lock = Lock()


def register(call: CustomCall, *, replace: bool = False) -> None:
    """Makes a target known to the verifier, the evaluator and the passes.

    Args:
        call: the target.
        replace: allow a target that is known already to mean something else from now on.

    Raises:
        ArgumentError: the target is known already.
    """
    with _lock:
        if not replace and call.target in {**BUILT_IN, **_registered}:
            raise ArgumentError(
                f"custom call {call.target!r} is registered already",
                hint="pass replace=True to replace it",
            )
        _registered[call.target] = call


def unregister(target: str) -> None:
    """Forgets a registered target; a built-in one means again what it did."""
    with _lock:
        _registered.pop(target, None)


def known(target: str) -> CustomCall | None:
    """The target, or None if nobody registered it."""
    return _registered.get(target) or BUILT_IN.get(target)


def find(target: str) -> CustomCall:
    """The target; an EvaluationError that lists near names if nobody registered it."""
    found = known(target)
    if found is not None:
        return found
    near = get_close_matches(target, [*BUILT_IN, *_registered], n=3, cutoff=0.6)
    raise EvaluationError(
        f"unknown custom call {target!r}",
        why="no target of that name is registered",
        hint=(f"did you mean {', '.join(near)}? " if near else "")
        + "register() of xladev.hlo.custom_calls.registry adds one",
        code="HLO_CUSTOM_CALL",
    )


def infer_custom_call(call: OpCall) -> Shape:
    """The declared shape, after the target's own check; unknown targets are left to backends."""
    result = call.result()
    target = known(call["custom_call_target"])
    if target is not None and target.check is not None:
        target.check(call)
    return result


def evaluate_custom_call(
    evaluation: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Value of a custom call.

    Raises:
        EvaluationError: the target is unknown, or has no meaning on the host.
        UserFunctionError: it was registered, and the function that gives its value raised, or
            gave what does not fit the instruction's shape.
    """
    target = find(instruction["custom_call_target"])
    if target.evaluate is None:
        raise EvaluationError(f"custom call {target.target!r} has no value here")
    if _registered.get(target.target) is not target:
        return target.evaluate(evaluation, instruction, tuple(operands))
    what = f"the function registered for custom call {target.target!r}"
    with user_function(what, passes=(XladevError,)):
        value = target.evaluate(evaluation, instruction, tuple(operands))
    return fitted(value, instruction.shape, what)
