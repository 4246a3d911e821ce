"""Cells of the matrix: one case for each element type that an opcode's shape rule takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xladev.errors import ArgumentError, ShapeError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import ARRAY_TYPES, PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import array
from xladev.testing.conformance.case import Build, Case, Inputs, ordinary

Node = HloInstruction
Template = Callable[[HloBuilder, PrimitiveType], Node]
"""Builds a program of one opcode for an element type; a ShapeError if the type is not taken."""


def accepts(template: Template, dtype: PrimitiveType) -> bool:
    """True if the rules of HLO take the element type."""
    try:
        template(HloBuilder("cell"), dtype)
    except ShapeError:
        return False
    return True


def cells(
    opcode: str,
    template: Template,
    *,
    inputs: Inputs = ordinary,
    types: Iterable[PrimitiveType] = ARRAY_TYPES,
    tags: Sequence[str] = (),
    suffix: str = "",
    tier: int = 2,
    **more: Any,
) -> Iterator[Case]:
    """One case for each type that is taken, called ``OPCODE-TYPE`` and the suffix.

    Raises:
        ArgumentError: no type is taken, so that the template must be wrong.
    """
    taken = [dtype for dtype in types if accepts(template, dtype)]
    if not taken:
        raise ArgumentError(f"no element type fits the cell {opcode}{suffix}")
    for dtype in taken:
        yield Case(
            f"{opcode}-{dtype}{suffix}",
            of_type(template, dtype),
            opcode,
            dtype.name,
            ("cell", *tags),
            tier,
            inputs,
            **more,
        )


def of_type(template: Template, dtype: PrimitiveType) -> Build:
    """What builds the template's program for one element type."""
    return lambda b: template(b, dtype)


def elementwise(opcode: str, count: int, dims: tuple[int, ...], **attrs: Any) -> Template:
    """Applies an opcode to parameters of one shape."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        operands = [b.parameter(array(dtype, dims)) for _ in range(count)]
        return b.op(opcode, *operands, **attrs)

    return template


def scalar_computation(
    build: Callable[..., Node], dtypes: Sequence[PrimitiveType], name: str = "scalars"
) -> HloComputation:
    """A computation of scalars: ``build`` is given the builder and its parameters."""
    b = HloBuilder(name)
    return b.build(build(b, *(b.parameter(array(t)) for t in dtypes)))


def combine(opcode: str, dtype: PrimitiveType) -> HloComputation:
    """A reducer of one opcode."""
    return scalar_computation(lambda b, x, y: b.op(opcode, x, y), (dtype, dtype), f"by_{opcode}")
