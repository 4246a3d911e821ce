"""A traced graph of torch as one HLO module."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from xladev.errors import XladevError
from xladev.frontends.torch import adapter
from xladev.frontends.torch.bounds.masks import (
    Masks,
    argument,
    element_from_end,
    mean_of_those_that_count,
    put_from_end,
)
from xladev.frontends.torch.bounds.plan import BoundPlan
from xladev.frontends.torch.element_types import type_of
from xladev.frontends.torch.exchange import as_numpy
from xladev.frontends.torch.layouts import Place, dense_order
from xladev.frontends.torch.lower.every import LOWERINGS
from xladev.frontends.torch.lower.random import STATE
from xladev.frontends.torch.lower.table import NotLowered
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.ir import DEFAULT_HEADER, HloModule
from xladev.hlo.literal import literal_of
from xladev.hlo.shape import Shape, array, tuple_of

Sizes = Mapping[Any, int]
"""The value of each symbol of a graph with symbolic sizes."""


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A module and how its parameters and results belong to the graph's.

    Attributes:
        module: the program; its result is a tuple.
        inputs: for each placeholder, how its tensor becomes the program's next parameter; None for
            one that is a number and is no parameter.
        outputs: for each result of the graph, how it is made from the tuple, or which input it is;
            numbers and None are given back as they are.
        updates: (result in the tuple, placeholder) of tensors that the program changes in place.
        has_seed: whether the last parameter is a seed for random numbers.
        checks: results that tell whether a decomposition failed, behind all others, with what torch
            says of it.
    """

    module: HloModule
    inputs: tuple[Place | None, ...]
    outputs: tuple[tuple[int, Place] | Input | int | None, ...]
    updates: tuple[tuple[int, int], ...]
    has_seed: bool
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Input:
    """A result that is an input of the graph, or a view of one: AOTAutograd keeps such for the
    gradient.

    Attributes:
        number: which one.
        views: what torch does to see it so, (operator, arguments behind the tensor) each; no
            elements are moved.
    """

    number: int
    views: tuple[tuple[Any, tuple[Any, ...]], ...] = ()


VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "alias.default", "detach.default", "expand.default", "permute.default", "select.int",
        "slice.Tensor", "squeeze.dims", "t.default", "transpose.int", "unsqueeze.default",
        "view.default",
    )
)  # fmt: skip
"""Operators that only see a tensor otherwise."""


@dataclass(frozen=True, slots=True)
class Check:
    """A result that is zero unless a matrix was singular, or not positive definite.

    Attributes:
        result: its number in the tuple.
        place: how it lies.
        function: name of the function that the user called.
        is_matrix: whether there is one matrix, and no batch.
    """

    result: int
    place: Place
    function: str
    is_matrix: bool


CHECK = "aten._linalg_check_errors.default"


def is_check(node: torch.fx.Node) -> bool:
    """Whether a call raises torch's error for a matrix that could not be decomposed."""
    return str(node.target) == "with_effects" and str(node.args[1]) == CHECK


KNOWN_WHILE_TRACING = "aten._assert_tensor_metadata.default"
"""An export's check of sizes and type, which cannot fail: the traced ones are those of the HLO."""


def is_token(node: torch.fx.Node) -> bool:
    """Whether a placeholder only orders effects: torch gives None for it."""
    return any(str(user.target) == "with_effects" and user.args[0] is node for user in node.users)


class SeededBuilder(TensorBuilder):
    """A builder whose seed becomes a parameter where it is first asked for."""

    has_seed = False

    def seed(self) -> None:
        """Makes the parameter."""
        if self.random_state is None:
            self.random_state = Value(self, self.parameter(STATE, "seed"))
            self.has_seed = True


def shape_of(value: Any, sizes: Sizes) -> Any:
    """The shape of a traced result: of several ones a tuple, None where there is none."""
    if isinstance(value, torch.Tensor):
        dims = [adapter.concrete(n, sizes) for n in value.shape]
        return array(type_of(value.dtype), dims)
    if isinstance(value, (list, tuple)):
        return tuple(shape_of(each, sizes) for each in value)
    return None


def lower_node(
    builder: SeededBuilder,
    node: torch.fx.Node,
    look: Any,
    sizes: Sizes,
    more: Mapping[str, Any] | None = None,
) -> Any:
    """The results of one call of an operator, ``more`` being arguments instead of the call's own.

    Raises:
        NotLowered: the operator, or this way to call it, has no lowering.
    """
    name = str(node.target)
    lowering = LOWERINGS.get(name)
    if lowering is None:
        raise NotLowered(f"{name} has no lowering", where=str(node))
    if lowering.family == "random":
        builder.seed()
    out = shape_of(node.meta.get("val"), sizes)
    kwargs = {key: look(value) for key, value in node.kwargs.items()} | dict(more or {})
    try:
        return lowering(builder, out, tuple(map(look, node.args)), kwargs)
    except XladevError as error:
        raise error.at(f"{node} = {name}") from error


class _Lowering:
    """One pass over a graph."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        name: str,
        sizes: Sizes,
        constants: Mapping[str, torch.Tensor],
        kept: Sequence[int] | None,
        plan: BoundPlan | None,
        is_alone: bool,
    ) -> None:
        self.graph = graph
        self.plan = plan
        self.is_alone = is_alone
        self.sizes = sizes
        self.constants = constants
        self.kept = kept
        self.builder = SeededBuilder(name)
        self.values: dict[torch.fx.Node, Any] = {}
        self.inputs: list[Place | None] = []
        self.placeholders: dict[torch.fx.Node, int] = {}
        self.updates: dict[int, Value] = {}
        self.checks: list[tuple[Value, str, bool]] = []

    def run(self) -> LoweredGraph:
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
        if self.plan is not None:
            self.masks = Masks(self.builder, {s: self._size() for s in self.plan.bounds})
        for node in self.graph.graph.nodes:
            if node.op == "output":
                return self._output(node)
            if node.op != "placeholder":
                self.values[node] = self._value(node)
        raise AssertionError("a graph ends with its output")

    def _placeholder(self, node: torch.fx.Node) -> None:
        at = len(self.inputs)
        self.placeholders[node] = at
        example = node.meta["val"]
        if node.name in self.constants:
            self.inputs.append(None)
            self.values[node] = self._literal(self.constants[node.name])
            return
        if is_token(node) or example is None or isinstance(example, (str, bool)):
            self.inputs.append(None)
            self.values[node] = example if not is_token(node) else None
            return
        if not isinstance(example, torch.Tensor):
            self.inputs.append(None)
            self.values[node] = self._number(example, node)
            return
        shape = shape_of(example, self.sizes)
        place = Place(shape, self._order(example, shape.dims))
        self.inputs.append(place)
        stored = Value(self.builder, self.builder.parameter(place.stored, str(node)))
        self.values[node] = stored.transpose(place.back)

    def _size(self) -> Value:
        """A parameter behind the graph's own: the value of a symbol."""
        place = Place(array(dt.S32), ())
        self.inputs.append(place)
        return Value(self.builder, self.builder.parameter(place.stored, "size"))

    def _number(self, example: Any, node: torch.fx.Node) -> Any:
        if isinstance(example, (torch.SymInt, int)):
            return adapter.concrete(example, self.sizes)
        raise NotLowered(f"an input of type {type(example).__name__}", where=str(node))

    def _look(self, value: Any) -> Any:
        """An argument of an operator, as its lowering takes it."""
        if isinstance(value, torch.fx.Node):
            return self.values[value]
        if isinstance(value, (list, tuple)):
            return [self._look(each) for each in value]
        if isinstance(value, torch.dtype):
            return type_of(value)
        return value

    def _value(self, node: torch.fx.Node) -> Any:
        if node.op == "get_attr":
            return self._constant(node)
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if is_check(node):
            _, _, info, function = node.args
            self.checks.append((self._look(info), function, node.kwargs["is_matrix"]))
            return (None,)
        if str(node.target) == KNOWN_WHILE_TRACING:
            return None
        example = node.meta.get("val")
        if isinstance(example, (int, torch.SymInt)):
            return adapter.concrete(example, self.sizes)
        if str(node.target) == "aten.copy_.default" and node.args[0] in self.placeholders:
            return self._update(node)
        return self._call(node)

    def _call(self, node: torch.fx.Node) -> Any:
        change = None if self.plan is None else self.plan.changes.get(node)
        if self.plan is None or change is None:
            return lower_node(self.builder, node, self._look, self.sizes)
        look = argument(self.masks, change, self.plan.extents, self._look)
        if change.from_end is not None:
            return self._from_end(node, self.masks.sizes[change.from_end])
        more = {}
        if change.keys:
            mask = self._look(node.kwargs.get("attn_mask"))
            more["attn_mask"] = self.masks.seen_keys(change.keys, mask)
        if change.steps is not None:
            self.builder.steps = self.masks.sizes[change.steps]
        made = lower_node(self.builder, node, look, self.sizes, more)
        self.builder.steps = None
        return mean_of_those_that_count(self.masks, change, made) if change.divisor else made

    def _from_end(self, node: torch.fx.Node, size: Value) -> Value:
        """One element, of which the index counts from the end."""
        tensors = [a for a in map(self._look, node.args) if isinstance(a, Value)]
        dim, index = (a for a in node.args if isinstance(a, int))
        if len(tensors) == 1:
            return element_from_end(size, tensors[0], dim, index)
        return put_from_end(size, tensors[0], tensors[1], dim, index)

    def _constant(self, node: torch.fx.Node) -> Value:
        held = held_by(self.graph, node)
        if not isinstance(held, torch.Tensor):
            raise NotLowered(f"a constant of type {type(held).__name__}", where=str(node))
        return self._literal(held)

    def _literal(self, held: torch.Tensor) -> Value:
        return Value(
            self.builder, self.builder.constant(literal_of(to_numpy(held), type_of(held.dtype)))
        )

    def _update(self, node: torch.fx.Node) -> Value:
        made = self._call(node)
        assert isinstance(made, Value)
        self.updates[self.placeholders[node.args[0]]] = made
        return made

    def _output(self, node: torch.fx.Node) -> LoweredGraph:
        results: list[Value] = []
        outputs = [self._result(result, results) for result in self._wanted(node)]
        updates = []
        for at, value in self.updates.items():
            place = self.inputs[at]
            assert place is not None
            updates.append((len(results), at))
            results.append(value.transpose(place.order))
        checks = []
        for value, function, is_matrix in self.checks:
            place = Place(value.node.shape.without_layout(), tuple(range(value.rank)))
            checks.append(Check(len(results), place, function, is_matrix))
            results.append(value)
        shapes = (each.node.shape for each in results)
        root = self.builder.op("tuple", *(r.node for r in results), shape=tuple_of(*shapes))
        return LoweredGraph(
            self.builder.module(root, self._header(updates)),
            tuple(self.inputs),
            tuple(outputs),
            tuple(updates),
            self.builder.has_seed,
            tuple(checks),
        )

    def _result(self, node: Any, results: list[Value]) -> tuple[int, Place] | Input | int | None:
        """How a result of the graph is made; what the program must give for it is appended."""
        value = self._look(node)
        if not isinstance(value, Value):
            return value
        seen = None if self.is_alone else self._view_of_input(node)
        if seen is not None:
            return seen
        place = self._place(node, value)
        stored = value.transpose(place.order)
        for number, other in enumerate(results):
            if other.node is stored.node and not self.is_alone:
                return number, place
        results.append(stored)
        return len(results) - 1, place

    def _view_of_input(self, node: torch.fx.Node) -> Input | None:
        """The input that a result is a view of, if the program does not change it."""
        views: list[tuple[Any, tuple[Any, ...]]] = []
        while node not in self.placeholders:
            if str(node.target) not in VIEWS or node.kwargs:
                return None
            first, *rest = node.args
            if not isinstance(first, torch.fx.Node) or _names_a_node(rest):
                return None
            views.insert(0, (node.target, tuple(rest)))
            node = first
        at = self.placeholders[node]
        if node.name in self.constants or at in self.updates:
            return None
        return Input(at, tuple(views))

    def _wanted(self, output: torch.fx.Node) -> Sequence[Any]:
        every = returned(output)
        return every if self.kept is None else [every[at] for at in self.kept]

    def _place(self, node: torch.fx.Node, value: Value) -> Place:
        """Where the elements of a result lie: as torch said that they would, if without gaps."""
        shape: Shape = value.node.shape
        order = self._order(node.meta["val"], shape.dims)
        return Place(array(shape.element_type, shape.dims), order)

    def _order(self, example: torch.Tensor, dims: Sequence[int]) -> tuple[int, ...]:
        """In which order dimensions lie in memory; arrays of a device lie row by row."""
        if self.is_alone or example.device.type != "cpu":
            return tuple(range(len(dims)))
        return dense_order([adapter.concrete(s, self.sizes) for s in example.stride()], dims)

    def _header(self, updates: Sequence[tuple[int, int]]) -> Any:
        number: dict[int, int] = {}
        for at, place in enumerate(self.inputs):
            if place is not None:
                number[at] = len(number)
        aliases = tuple(ModuleAlias((result,), number[at], ()) for result, at in updates)
        return replace(DEFAULT_HEADER, aliases=aliases)


def held_by(graph: Any, node: torch.fx.Node) -> Any:
    """What a node of a graph's own attributes names."""
    held = graph
    for part in str(node.target).split("."):
        held = getattr(held, part)
    return held


def _names_a_node(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_names_a_node, value))
    return isinstance(value, torch.fx.Node)


def returned(output: torch.fx.Node) -> Sequence[Any]:
    """What a graph returns, as a sequence: a part of a graph may return one value alone."""
    (found,) = output.args
    return found if isinstance(found, (list, tuple)) else (found,)


def to_numpy(tensor: torch.Tensor) -> Any:
    """The elements of a tensor as a NumPy array; a view where torch allows it."""
    with adapter.real_tensors():
        return as_numpy(tensor.detach().cpu().contiguous())


def lower_graph(
    graph: torch.fx.GraphModule,
    name: str,
    sizes: Sizes | None = None,
    *,
    constants: Mapping[str, torch.Tensor] | None = None,
    kept: Sequence[int] | None = None,
    plan: BoundPlan | None = None,
    is_alone: bool = False,
) -> LoweredGraph:
    """The HLO of a graph whose nodes hold fake results, as AOTAutograd and torch.export make it.

    Args:
        graph: operators, inputs and constants only.
        name: of the module.
        sizes: values of its symbols.
        constants: values of placeholders, by name, that are no parameters of the program.
        kept: which of the graph's results are wanted; None for all.
        plan: how arrays are filled up to a bound; ``sizes`` are the bounds then, and the symbols'
            values are further parameters.
        is_alone: nobody reads but the module: its arrays have the shapes of the tensors, whatever
            their strides, and it gives all results, inputs and equal ones too.

    Raises:
        NotLowered: an operator has no lowering.
    """
    return _Lowering(graph, name, sizes or {}, constants or {}, kept, plan, is_alone).run()
