"""Symbolic sizes: where a graph's symbols are found among its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xladev.frontends.torch import adapter

Source = tuple[int, int | None]
"""Where the value of a symbol is found: an argument, or a dimension of one."""


def symbols_of(graph: torch.fx.GraphModule) -> dict[Any, Source]:
    """Where each symbol of a graph's sizes is found among its arguments."""
    found: dict[Any, Source] = {}
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for at, node in enumerate(placeholders):
        example = node.meta.get("val")
        if isinstance(example, torch.SymInt):
            found.setdefault(adapter.symbol(example), (at, None))
        elif isinstance(example, torch.Tensor):
            for d, size in enumerate(example.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(adapter.symbol(size), (at, d))
    return {symbol: source for symbol, source in found.items() if symbol.is_Symbol}


def sizes_of(args: Sequence[Any], symbols: Mapping[Any, Source]) -> tuple[int, ...]:
    """The values of the symbols."""
    return tuple(_value(args, source) for source in symbols.values())


def _value(args: Sequence[Any], source: Source) -> int:
    at, dim = source
    return int(args[at] if dim is None else args[at].shape[dim])
