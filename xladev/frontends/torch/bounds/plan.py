"""Which arrays of a graph are filled up to a bound, and where what fills them must not count."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from xladev.frontends.torch import adapter
from xladev.frontends.torch.bounds.extents import (
    Bounds,
    Extent,
    Extents,
    Factor,
    broadcast,
    extents_of,
    is_filled,
    size_of,
)
from xladev.frontends.torch.lower.table import NotLowered

Fill = str
"""What stands for elements that do not count: ``zero``, ``one``, ``lowest`` or ``highest``."""


@dataclass(slots=True)
class Change:
    """What is different in the lowering of one call.

    Attributes:
        fills: operands in which elements that do not count are replaced.
        keys: of attention, the dimension of keys, of which some must not be seen.
        divisor: of a mean, the dimensions that are counted.
        steps: of a recurrent layer, the symbol of how many steps there are.
        numbers: arguments that are sizes, each a number times symbols.
        from_end: of one element, the symbol of the size from which its index counts.
    """

    fills: dict[torch.fx.Node, Fill] = field(default_factory=dict)
    keys: Extent = ()
    divisor: tuple[Extent, ...] = ()
    steps: Any = None
    numbers: dict[torch.fx.Node, tuple[int, list[Any]]] = field(default_factory=dict)
    from_end: Any = None


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """How a graph is lowered for all sizes up to a bound.

    Attributes:
        bounds: of each symbol, in the order in which their values are parameters.
        extents: of each call's and input's tensor, or of its several results.
        changes: of calls that are lowered otherwise.
    """

    bounds: Bounds
    extents: Mapping[torch.fx.Node, Any]
    changes: Mapping[torch.fx.Node, Change]


class Call:
    """One call of an operator, whose rule is asked how its results are filled."""

    def __init__(self, node: torch.fx.Node, known: Mapping[Any, Any], traced: Any) -> None:
        self.node = node
        self.change = Change()
        self.traced = traced
        """Extents of the results as torch's sizes tell them; the order of factors is a guess."""
        self._known = known

    @property
    def args(self) -> tuple[Any, ...]:
        """Arguments by position."""
        return tuple(self.node.args)

    def arg(self, at: int, default: Any = None) -> Any:
        """One argument by position."""
        return self.node.args[at] if at < len(self.node.args) else default

    def extents(self, operand: Any) -> Extents:
        """The dimensions of an operand."""
        found: Extents = self._known[operand]
        return found

    def tensors(self) -> list[Extents]:
        """The dimensions of all operands that are tensors."""
        nodes = self.node.all_input_nodes
        return [self._known[n] for n in nodes if isinstance(self._known.get(n), tuple)]

    def fill(self, operand: Any, fill: Fill) -> None:
        """Replaces elements of an operand that do not count, if it has any."""
        if operand is None or not any(map(is_filled, self.extents(operand))):
            return
        if self.change.fills.setdefault(operand, fill) != fill:
            raise NotLowered("one operand twice, filled in two ways")

    def read_sizes(self) -> None:
        """Has arguments that are sizes computed from the symbols' values."""
        for node in self.node.all_input_nodes:
            size = node.meta.get("val")
            if not isinstance(size, torch.SymInt):
                continue
            number, symbols = adapter.product_of(size)
            if number is None:
                raise NotLowered(
                    f"a size of {size}", why="it is no product of a number and symbols"
                )
            self.change.numbers[node] = (number, symbols)

    def refuse_filled(self, *extents: Extent) -> None:
        """Ends the attempt where one of these dimensions is open."""
        if any(map(is_filled, extents)):
            raise NotLowered(f"{self.node.target} along a dimension that is open")


Rule = Callable[[Call], Any]
"""Gives the extents of a call's result, or a tuple of them."""


def plan_of(graph: torch.fx.GraphModule, bounds: Bounds, rules: Mapping[str, Rule]) -> BoundPlan:
    """How a graph is lowered for all sizes up to bounds.

    Raises:
        NotLowered: an operator, or what it does with an open dimension, has no rule.
    """
    try:
        return _Planning(graph, bounds, rules, symbols_first=False).run()
    except NotLowered:
        return _Planning(graph, bounds, rules, symbols_first=True).run()


class _Planning:
    def __init__(
        self,
        graph: torch.fx.GraphModule,
        bounds: Bounds,
        rules: Mapping[str, Rule],
        *,
        symbols_first: bool,
    ) -> None:
        self.graph = graph
        self.bounds = bounds
        self.rules = rules
        self.symbols_first = symbols_first
        self.known: dict[Any, Any] = {}
        self.changes: dict[torch.fx.Node, Change] = {}

    def run(self) -> BoundPlan:
        for node in self.graph.graph.nodes:
            if node.op != "output":
                self.known[node] = self._extents(node)
        return BoundPlan(self.bounds, self.known, self.changes)

    def _extents(self, node: torch.fx.Node) -> Any:
        value = node.meta.get("val")
        traced = self._traced(value)
        if node.op != "call_function" or isinstance(value, (int, torch.SymInt)):
            return traced
        if node.target is operator.getitem:
            return self.known[node.args[0]][node.args[1]]
        call = Call(node, self.known, traced)
        try:
            made = self._rule(call)(call)
        except NotLowered as error:
            raise error.at(f"{node} = {node.target}") from error
        self._check(node, made, traced)
        if call.change != Change():
            self.changes[node] = call.change
        return made

    def _traced(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return extents_of(value, self.bounds, symbols_first=self.symbols_first)
        if isinstance(value, (list, tuple)):
            return tuple(map(self._traced, value))
        return None

    def _rule(self, call: Call) -> Rule:
        rule = self.rules.get(str(call.node.target))
        if rule is not None:
            return rule
        if _reads_numbers(call.node):
            raise NotLowered("a size as a number", why="its value is not known when compiling")
        if adapter.is_pointwise(call.node.target):
            return lambda call: broadcast(call.tensors())
        if not _is_open(call.tensors()) and not _is_open(call.traced):
            return lambda call: call.traced
        raise NotLowered(f"{call.node.target} on dimensions that are open")

    def _check(self, node: torch.fx.Node, made: Any, traced: Any) -> None:
        """The sizes of a rule's results are torch's."""
        if isinstance(node.meta["val"], torch.Tensor):
            made, traced = [made], [traced]
        for one, other in zip(made, traced, strict=True):
            if one is not None and _facts(one) != _facts(other):
                raise NotLowered("dimensions that are open in another way than torch's")


def _facts(extents: Extents) -> list[Any]:
    return [(size_of(e), sorted(str(f.symbol) for f in e if f.symbol is not None)) for e in extents]


def _is_open(value: Any) -> bool:
    """Whether a dimension is open somewhere among extents or sequences of them."""
    if isinstance(value, Factor):
        return value.symbol is not None
    return isinstance(value, (list, tuple)) and any(map(_is_open, value))


def _reads_numbers(node: torch.fx.Node) -> bool:
    """Whether an argument is a size that is not known."""
    return any(isinstance(n.meta.get("val"), torch.SymInt) for n in node.all_input_nodes)
