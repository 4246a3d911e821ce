"""Choosing between two elements without computing the other one."""

from __future__ import annotations

from collections.abc import Callable

from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.llvm import Value
from xladev.codegen.scalar.elements import ComplexValue, Element


def flat(elements: tuple[Element, ...]) -> tuple[Value, ...]:
    """The SSA values of elements, complex ones as two."""
    values: list[Value] = []
    for element in elements:
        values.extend(
            (element.real, element.imag) if isinstance(element, ComplexValue) else (element,)
        )
    return tuple(values)


def unflat(values: tuple[Value, ...], like: tuple[Element, ...]) -> tuple[Element, ...]:
    """Elements of the same kinds as ``like`` from their SSA values."""
    remaining = iter(values)
    return tuple(
        ComplexValue(next(remaining), next(remaining))
        if isinstance(element, ComplexValue)
        else next(remaining)
        for element in like
    )


def choose_many(
    e: ElementalEmitter,
    condition: Value | bool,
    then: Callable[[], tuple[Element, ...]],
    otherwise: Callable[[], tuple[Element, ...]],
) -> tuple[Element, ...]:
    """The elements of one of two pieces of code; only that one runs."""
    if isinstance(condition, bool):
        return then() if condition else otherwise()
    shape: list[tuple[Element, ...]] = []

    def run(code: Callable[[], tuple[Element, ...]]) -> tuple[Value, ...]:
        with e.scope():
            shape.append(code())
        return flat(shape[-1])

    values = e.b.branch(condition, lambda: run(then), lambda: run(otherwise))
    return unflat(values, shape[0])


def choose(
    e: ElementalEmitter,
    condition: Value | bool,
    then: Callable[[], Element],
    otherwise: Callable[[], Element],
) -> Element:
    """The element of one of two pieces of code; only that one runs."""
    return choose_many(e, condition, lambda: (then(),), lambda: (otherwise(),))[0]
