"""Loops in the program being built."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import tuple_of

Values = Sequence[Value]


def repeat_while(
    start: Values, condition: Callable[[Values], Value], body: Callable[[Values], Values]
) -> tuple[Value, ...]:
    """Values that a body makes of values, again and again while a condition holds.

    Both functions get values of a computation of their own, and may use no others.
    """
    b = start[0].builder
    shape = tuple_of(*(v.node.shape for v in start))
    loop = b.op(
        "while",
        b.op("tuple", *(v.node for v in start), shape=shape),
        condition=_computation("condition", shape, lambda carried: [condition(carried)]),
        body=_computation("body", shape, body, is_tuple=True),
    )
    return b.parts(loop)


def _computation(
    name: str, shape: object, function: Callable[[Values], Values], *, is_tuple: bool = False
) -> HloComputation:
    inner = TensorBuilder(name)
    carried = inner.parts(inner.parameter(shape))  # type: ignore[arg-type]
    made = function(carried)
    if not is_tuple:
        return inner.build(made[0].node)
    return inner.build(
        inner.op("tuple", *(v.node for v in made), shape=tuple_of(*(v.node.shape for v in made)))
    )
