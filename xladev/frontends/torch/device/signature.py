"""From an operator and its arguments to the one `Call` for all of their sizes and types.

How an operator becomes HLO is found once for each signature: by its lowering, or by torch's
decomposition traced into operators that have one. What has neither runs on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from xladev.errors import ArgumentError, XladevError, one_line
from xladev.frontends.torch import adapter
from xladev.frontends.torch.device import hooks, tracing
from xladev.frontends.torch.device.cells import CELLS
from xladev.frontends.torch.device.decomposed import lower_traced
from xladev.frontends.torch.device.node import (
    Call,
    Layout,
    Spec,
    layout_of,
    plain,
    spec_of,
    takes_doubles,
    view_strides,
)
from xladev.frontends.torch.device.places import PlaceRule
from xladev.frontends.torch.element_types import TYPE_OF, type_of
from xladev.frontends.torch.errors import refusal
from xladev.frontends.torch.graph import SeededBuilder, shape_of
from xladev.frontends.torch.lower.every import LOWERINGS
from xladev.frontends.torch.lower.random import STATE as SEED
from xladev.frontends.torch.lower.table import NotLowered
from xladev.frontends.torch.lower.value import Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array

DROPPED = frozenset(("device", "layout", "pin_memory", "non_blocking", "generator"))
"""Arguments that say nothing about the result's sizes, type and program."""

FORMAT = "memory_format"
"""The argument that says the result's strides and nothing about its values."""

SCALARS: Mapping[str, frozenset[int | str]] = {
    **{
        f"aten.{name}.{kind}": frozenset((1, "alpha"))
        for name in ("add", "sub")
        for kind in ("Tensor", "Scalar")
    },
    **{f"aten.{name}.{kind}": frozenset((1,)) for name in ("mul", "div")
       for kind in ("Tensor", "Scalar")},
    "aten.lerp.Scalar": frozenset((2,)),
    "aten.addcmul.default": frozenset(("value",)),
    "aten.addcdiv.default": frozenset(("value",)),
    "aten.rsub.Scalar": frozenset((1,)),
}  # fmt: skip
"""Floats that are parameters of programs, so that one program serves them all: optimisers give
others at each step. By overload: places among the arguments, and names."""

HOST_ONLY = frozenset(("aten._local_scalar_dense.default", "aten.equal.default"))

FILLS = frozenset((
    "aten.fill.Scalar", "aten.masked_fill.Scalar", "aten.index_fill.int_Scalar",
    "aten.full.default", "aten.full_like.default", "aten.constant_pad_nd.default",
    "aten.scatter.value",
))  # fmt: skip
"""Operators that put a number in a tensor. Where its type may not hold the number, torch's CPU says
so, or what it becomes."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The place of a tensor among a call's operands."""

    at: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """The place of a number among a call's scalars."""

    at: int


def filled(template: Any, operands: Sequence[Any], scalars: Sequence[Any]) -> Any:
    """A template of arguments with something for each operand and scalar."""
    if isinstance(template, Operand):
        return operands[template.at]
    if isinstance(template, Scalar):
        return scalars[template.at]
    if isinstance(template, (list, tuple)):
        return [filled(each, operands, scalars) for each in template]
    if isinstance(template, dict):
        return {name: filled(each, operands, scalars) for name, each in template.items()}
    return template


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator with arguments in which operands and scalars are left open.

    Attributes:
        op: the overload; a view, where torch asked for a copy that is one.
        args: template.
        kwargs: template.
        specs: of the operands.
        scalars: one value of each scalar, for sizes and types.
        layouts: of the operands.
        rule: of the place that the arguments do not say; None where there is none.
    """

    op: Any
    args: Any
    kwargs: Any
    specs: tuple[Spec, ...]
    scalars: tuple[float, ...]
    layouts: tuple[Layout | None, ...]
    rule: PlaceRule | None = None

    def call(self) -> Call:
        """The call: how it is lowered, or why not."""
        name = str(self.op)
        try:
            return self._lowered(name)
        except (XladevError, AssertionError, TypeError, ValueError, IndexError,
                RuntimeError, NotImplementedError, SyntaxError) as error:  # fmt: skip
            return Call(name, (), None, why_not=one_line(str(error))[:200] or type(error).__name__)

    def _lowered(self, name: str) -> Call:
        if name in HOST_ONLY:
            raise NotLowered("its result is a number of the host")
        found = self._inferred()
        specs, is_several = _specs(found)
        if name in FILLS and not holds(found.dtype, self._number()):
            raise NotLowered("a number that the type of the result may not hold")
        layouts = _layouts(found)
        lowering = LOWERINGS.get(name)
        lower: Callable[..., Any]
        if self.rule is not None:
            lower = self._at_place(self.rule, shape_of(found, {}))
            draws = False
        elif lowering is None:
            lower = self._decomposed()
            draws = True
        else:
            lower = self._by_table(lowering, shape_of(found, {}))
            draws = lowering.family == "random"
        draws = self._try(lower, draws, dt.F64 if takes_doubles(specs) else dt.F32)
        return Call(name, specs, lower, is_several=is_several, draws=draws, layouts=layouts)

    def _number(self) -> Any:
        """The number that the operator fills in."""
        place, named = next(
            (at, each.name)
            for at, each in enumerate(self.op._schema.arguments)
            if each.name in ("value", "fill_value")
        )
        return self.args[place] if place < len(self.args) else self.kwargs.get(named, 0)

    def strided(self) -> tuple[Layout | None, ...]:
        """Layouts of the results where operands are strided.

        Raises:
            RuntimeError: there is no such view of an operand.
        """
        if self.op is torch.ops.aten.view.default:
            return (self._view(),)
        with tracing.fake_tensors():
            operands = [
                each if layout is None else _strided(each, layout)
                for each, layout in zip(self._examples(), self.layouts, strict=True)
            ]
            try:
                return _layouts(self._applied(operands))
            except ValueError as error:  # what torch's references of views raise
                raise RuntimeError(str(error)) from error

    def _view(self) -> Layout | None:
        """The layout of a view of other sizes.

        Torch's own rule for tensors without elements takes some for views that its CPU refuses.
        """
        spec, layout = self.specs[0], self.layouts[0]
        assert layout is not None
        if 0 in spec.shape:
            return None
        wanted = torch.empty(spec.shape, device="meta").view(self.args[1]).shape
        strides = view_strides(spec.shape, layout.strides, wanted)
        if strides is None:
            raise refusal(
                ArgumentError,
                "view size is not compatible with input tensor's size and stride (at least one "
                "dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
                where=f"a view of {tuple(wanted)} of {spec.shape}, strides {layout.strides}",
                why="its elements would lie at no equal distances",
                hint="call reshape, which copies them",
            )
        return plain(wanted, Layout(strides, layout.offset))

    def _examples(self) -> list[torch.Tensor]:
        return [torch.empty(spec.shape, dtype=spec.dtype) for spec in self.specs]

    def _inferred(self) -> Any:
        """The results without elements, operands being contiguous."""
        with tracing.fake_tensors():
            return self._applied(self._examples())

    def _applied(self, operands: Sequence[torch.Tensor]) -> Any:
        args = filled(self.args, operands, self.scalars)
        kwargs = filled(self.kwargs, operands, self.scalars)
        if hooks.takes_device(self.op):
            kwargs["device"] = "cpu"
        return CELLS.get(self.op, self.op)(*args, **kwargs)

    def _by_table(self, lowering: Any, out: Any) -> Callable[..., Any]:
        args, kwargs = _with_types(self.args), _with_types(self.kwargs)
        kwargs.pop(FORMAT, None)

        def lower(builder: SeededBuilder, operands: list[Value], scalars: list[Value]) -> Any:
            given = tuple(filled(args, operands, scalars))
            return lowering(builder, out, given, filled(kwargs, operands, scalars))

        return lower

    def _at_place(self, rule: PlaceRule, out: Any) -> Callable[..., Any]:
        def lower(
            builder: SeededBuilder, operands: list[Value], scalars: list[Value], place: Any = 0
        ) -> Any:
            return rule.lower(builder, out, filled(self.args, operands, scalars), place)

        return lower

    def _decomposed(self) -> Callable[..., Any]:
        def function(*operands: torch.Tensor) -> Any:
            return self._applied(operands)

        with tracing.fake_tensors():
            graph = tracing.traced(function, self._examples(), decompositions())

        def lower(builder: SeededBuilder, operands: list[Value], _: list[Value]) -> Any:
            return lower_traced(builder, graph, operands)

        return lower

    def _try(self, lower: Callable[..., Any], draws: bool, to: dt.PrimitiveType) -> bool:
        """Lowers it by itself, with scalars of a type; whether it draws random numbers.

        Raises:
            XladevError: it has no lowering.
        """
        builder = SeededBuilder("try")
        operands = [
            Value(builder, builder.parameter(array(type_of(s.dtype), s.shape))) for s in self.specs
        ]
        scalars = [Value(builder, builder.parameter(array(to))) for _ in self.scalars]
        seed = Value(builder, builder.parameter(SEED)) if draws else None
        builder.random_state = seed
        lower(builder, operands, scalars)
        return builder.random_state is not seed


def holds(dtype: torch.dtype, number: Any) -> bool:
    """Whether a type has a number, or one near it."""
    if dtype.is_complex or dtype is torch.bool or not isinstance(number, (int, float, complex)):
        return True
    if isinstance(number, complex):
        return False
    if dtype.is_floating_point:
        return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max
    found = torch.iinfo(dtype)
    return math.isfinite(number) and found.min <= number <= found.max


def _with_types(template: Any) -> Any:
    """Torch's dtypes as HLO's."""
    if isinstance(template, torch.dtype):
        return type_of(template)
    if isinstance(template, (list, tuple)):
        return [_with_types(each) for each in template]
    if isinstance(template, dict):
        return {name: _with_types(each) for name, each in template.items()}
    return template


def _specs(found: Any) -> tuple[tuple[Spec | None, ...], bool]:
    if isinstance(found, torch.Tensor):
        return (_spec(found),), False
    if isinstance(found, (list, tuple)) and all(
        each is None or isinstance(each, torch.Tensor) for each in found
    ):
        return tuple(None if each is None else _spec(each) for each in found), True
    raise NotLowered(f"a result of type {type(found).__name__}")


def _layouts(found: Any) -> tuple[Layout | None, ...]:
    results = [found] if isinstance(found, torch.Tensor) else found
    return tuple(None if each is None else layout_of(each) for each in results)


def _strided(example: torch.Tensor, layout: Layout) -> torch.Tensor:
    """An example with a layout, and memory for it."""
    last = sum((n - 1) * s for n, s in zip(example.shape, layout.strides, strict=True))
    memory = torch.empty((max(last, 0) + layout.offset + 1,), dtype=example.dtype)
    return memory.as_strided(example.shape, layout.strides, layout.offset)


def _spec(found: torch.Tensor) -> Spec:
    if found.dtype not in TYPE_OF or found.layout is not torch.strided:
        raise NotLowered(f"a result of {found.dtype}, {found.layout}")
    if not all(isinstance(size, int) for size in found.shape):
        raise NotLowered("a result whose size depends on values")
    return spec_of(found)


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """What torch takes apart."""
    return adapter.decompositions(LOWERINGS)
