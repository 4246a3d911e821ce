"""Python functions that programs call: by number, as the custom call `xladev_python_callback`.

A number means a function for as long as somebody holds its `Callback`: while JAX lowers, the module
being built does; from then on the compiled program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo.custom_calls import registry
from xladev.hlo.custom_calls.backend_config import config_of
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.user_functions import user_function
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Value
from xladev.hlo.opdef import Evaluation, InstructionView

TARGET = "xladev_python_callback"
NUMBER = "number"

_numbers = itertools.count(1)
_callbacks: WeakValueDictionary[int, Callback] = WeakValueDictionary()


class Callback:
    """A function that programs may call.

    Args:
        function: takes arrays, gives as many arrays as the program expects.
        passes_token: the first operand and result are a token, which the function does not see.
        called_at: ``file:line`` of the program that calls it; empty if nobody knows.
    """

    def __init__(
        self,
        function: Callable[..., Sequence[Any]],
        *,
        passes_token: bool = False,
        called_at: str = "",
    ) -> None:
        self.called_at = called_at
        self.number = next(_numbers)
        self._function = function
        self._passes_token = passes_token
        _callbacks[self.number] = self

    def __call__(self, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Results for operands, tokens included."""
        first = int(self._passes_token)
        given = [np.asarray(operand) for operand in operands[first:]]
        return (*operands[:first], *self._function(*given))


def used_callbacks(module: HloModule) -> list[Callback]:
    """The callbacks of a module, for its program to hold.

    Raises:
        EvaluationError: one of them is gone, or belongs to another process.
    """
    return [
        _find(config_of(call))
        for call in custom_calls(module)
        if call["custom_call_target"] == TARGET
    ]


def custom_calls(module: HloModule) -> Iterator[HloInstruction]:
    """All custom calls of a module."""
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "custom-call":
                yield instruction


def _find(config: dict[str, Any]) -> Callback:
    found = _callbacks.get(int(config.get(NUMBER, 0)))
    if found is None:
        raise EvaluationError(
            f"callback {config.get(NUMBER)} is not known to this process",
            why="a program with Python callbacks runs in the process that traced it",
            hint="trace and compile the function again",
        )
    return found


def _evaluate(_: Evaluation, instruction: InstructionView, operands: Sequence[Value]) -> Value:
    callback = _find(config_of(instruction))
    with user_function("the Python callback", called_at=callback.called_at):
        results = callback(operands)
    return results if instruction.shape.is_tuple else results[0]


def register() -> None:
    """Makes the target known; again is allowed."""
    registry.register(
        CustomCall(TARGET, "Calls a Python function of this process.", _evaluate, side_effect=True),
        replace=True,
    )
