"""A traced decomposition as HLO within a program that is being built."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from xladev.frontends.torch.element_types import type_of
from xladev.frontends.torch.graph import SeededBuilder, held_by, lower_node, returned, to_numpy
from xladev.frontends.torch.lower.table import NotLowered
from xladev.frontends.torch.lower.value import Value
from xladev.hlo.literal import literal_of


def lower_traced(
    builder: SeededBuilder, graph: torch.fx.GraphModule, operands: Sequence[Value]
) -> Any:
    """The results of a traced function of tensors.

    Raises:
        NotLowered: an operator in it has no lowering.
    """
    values: dict[torch.fx.Node, Any] = {}
    given = iter(operands)

    def look(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return values[value]
        if isinstance(value, (list, tuple)):
            return [look(each) for each in value]
        return type_of(value) if isinstance(value, torch.dtype) else value

    for node in graph.graph.nodes:
        if node.op == "output":
            found = node.args[0]
            return look(found) if isinstance(found, torch.fx.Node) else look(returned(node))
        values[node] = (
            next(given) if node.op == "placeholder" else _value(builder, graph, node, look)
        )
    raise AssertionError("a graph ends with its output")


def _value(builder: SeededBuilder, graph: Any, node: torch.fx.Node, look: Any) -> Any:
    if node.op == "get_attr":
        held = held_by(graph, node)
        if not isinstance(held, torch.Tensor):
            raise NotLowered(f"a constant of type {type(held).__name__}", where=str(node))
        return Value(builder, builder.constant(literal_of(to_numpy(held), type_of(held.dtype))))
    if node.target is operator.getitem:
        return look(node.args[0])[node.args[1]]
    return lower_node(builder, node, look, {})
