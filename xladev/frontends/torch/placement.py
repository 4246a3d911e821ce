"""Where a graph's tensors are: torch's CPU, or a device of xladev that is registered with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from xladev.client import CompiledModule
from xladev.frontends.torch.graph import LoweredGraph, Sizes


class Placement(NamedTuple):
    """How programs of graphs are called whose tensors are on a device.

    Attributes:
        platform: name of xladev's device, which has the tensors' arrays.
        caller: a function of the graph's inputs, of a lowered graph, its program, the graph and
            the values of the symbols in its sizes.
    """

    platform: Callable[[], str]
    caller: Callable[
        [LoweredGraph, CompiledModule, torch.fx.GraphModule, Sizes],
        Callable[[list[Any]], list[Any]],
    ]


PLACEMENTS: dict[str, Placement] = {}
"""By the device's name in torch; `xladev.torch.register` puts them here."""


def placement_of(graph: torch.fx.GraphModule) -> Placement | None:
    """That of the first tensor on such a device; None for graphs of the host."""
    if not PLACEMENTS:
        return None
    for node in graph.graph.nodes:
        for each in _tensors(node.meta.get("val")):
            if each.device.type in PLACEMENTS:
                return PLACEMENTS[each.device.type]
    return None


def is_known(device: torch.device) -> bool:
    """Whether programs take and give tensors there."""
    return device.type == "cpu" or device.type in PLACEMENTS


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for t in value if isinstance(t, torch.Tensor)] if isinstance(value, tuple) else []
