"""Calls of programs for all sizes up to a bound: tensors filled up, and results cut to size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from xladev.frontends.torch import adapter
from xladev.frontends.torch.bounds.extents import Extents, is_filled, size_of
from xladev.frontends.torch.bounds.plan import BoundPlan
from xladev.frontends.torch.graph import returned
from xladev.frontends.torch.symbols import Source, sizes_of

Sizes = Mapping[Any, int]


def _factors(extents: Extents) -> list[Any]:
    return [factor for extent in extents for factor in extent]


def filled_up(extents: Extents) -> Callable[[torch.Tensor, Sizes], torch.Tensor]:
    """What makes a tensor of the bounds' sizes, with zeros where elements do not count."""
    factors = _factors(extents)
    dims = [size_of(extent) for extent in extents]

    def fill(tensor: torch.Tensor, sizes: Sizes) -> torch.Tensor:
        true = [sizes.get(f.symbol, f.size) for f in factors]
        made = tensor.new_zeros([f.size for f in factors])
        made[tuple(map(slice, true))] = tensor.detach().reshape(true)
        return made.reshape(dims)

    return fill


def cut_to_size(extents: Extents) -> Callable[[torch.Tensor, Sizes], torch.Tensor]:
    """What takes the elements that count out of a tensor of the bounds' sizes."""
    factors = _factors(extents)
    counts = [len(extent) for extent in extents]

    def cut(tensor: torch.Tensor, sizes: Sizes) -> torch.Tensor:
        true = [sizes.get(f.symbol, f.size) for f in factors]
        part = tensor.reshape([f.size for f in factors])[tuple(map(slice, true))]
        left = iter(true)
        dims = [prod(next(left) for _ in range(count)) for count in counts]
        return part.reshape(dims).contiguous()

    return cut


def bounded_caller(
    graph: torch.fx.GraphModule,
    plan: BoundPlan,
    symbols: Mapping[Any, Source],
    call: Callable[[list[Any]], Sequence[Any]],
) -> Callable[[list[Any]], Sequence[Any]]:
    """A function of the graph's inputs, of any size up to the bounds.

    Args:
        graph: what was compiled.
        plan: how its arrays are filled up.
        symbols: where the graph's sizes are found.
        call: takes and gives arrays of the bounds' sizes; the sizes are its last arguments.
    """
    nodes = list(graph.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    fills = [(at, filled_up(plan.extents[n])) for at, n in enumerate(placeholders)
             if _is_open(plan.extents[n])]  # fmt: skip
    results = [_result(n, plan, placeholders) for n in returned(nodes[-1])]

    def run(args: list[Any]) -> Sequence[Any]:
        key = sizes_of(args, symbols)
        sizes = dict(zip(symbols, key, strict=True))
        given = list(args)
        args.clear()
        taken = list(given)
        for at, fill in fills:
            taken[at] = fill(given[at], sizes)
        taken += [torch.tensor(size, dtype=torch.int32) for size in key]
        found = call(taken)
        pairs = zip(results, found, strict=True)
        return [value if result is None else result(value, given, sizes) for result, value in pairs]

    return run


Result = Callable[[Any, Sequence[Any], Sizes], Any]


def _result(node: Any, plan: BoundPlan, placeholders: Sequence[Any]) -> Result | None:
    """What makes a result of the graph of the program's; None if it is the same."""
    if not isinstance(node, torch.fx.Node):
        return None
    if node in placeholders:
        at = placeholders.index(node)
        return lambda value, given, sizes: given[at]
    example = node.meta.get("val")
    if isinstance(example, torch.SymInt):
        return lambda value, given, sizes: adapter.concrete(example, sizes)
    if not _is_open(plan.extents.get(node)):
        return None
    cut = cut_to_size(plan.extents[node])
    return lambda value, given, sizes: cut(value, sizes)


def _is_open(extents: Any) -> bool:
    return bool(extents) and any(map(is_filled, extents))
