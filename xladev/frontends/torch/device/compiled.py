"""Programs of `torch.compile` on tensors of the device: they take and give its arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from xladev.client import CompiledModule
from xladev.errors import XladevError
from xladev.frontends.torch import adapter
from xladev.frontends.torch.device import hooks
from xladev.frontends.torch.device.counts import COUNTS
from xladev.frontends.torch.device.generator import draw_seed
from xladev.frontends.torch.device.node import Layout, Node, Spec, layout_of, spec_of
from xladev.frontends.torch.device.program import compute
from xladev.frontends.torch.device.record import is_ours
from xladev.frontends.torch.device.tensor import tensor_of, the_device
from xladev.frontends.torch.errors import as_torch
from xladev.frontends.torch.exchange import giver, taker
from xladev.frontends.torch.graph import Input, LoweredGraph, Sizes, returned
from xladev.frontends.torch.placement import Placement
from xladev.runtime.array import DeviceArray

Give = Callable[[Sequence[DeviceArray], Sequence[Any]], Any]


def caller(
    lowered: LoweredGraph, run: CompiledModule, graph: torch.fx.GraphModule, values: Sizes
) -> Callable[[list[Any]], list[Any]]:
    """A function of the graph's inputs, which it takes out of a list that it empties.

    It raises an XladevError that is of torch's usual class too where the run fails.
    """
    examples = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
    plan = [
        (at, None if example is not None and is_ours(example) else taker(place))
        for at, (place, example) in enumerate(zip(lowered.inputs, examples, strict=True))
        if place is not None
    ]
    (output,) = [n for n in graph.graph.nodes if n.op == "output"]
    givers = [
        _giver(how, node, values)
        for how, node in zip(lowered.outputs, returned(output), strict=True)
    ]
    checks = [(each, giver(each.place, shares_memory=False)) for each in lowered.checks]
    where = f"program {run.program.name}"

    def call(args: list[Any]) -> list[Any]:
        taken = _arguments(args, plan)
        if lowered.has_seed:
            taken.append(np.array(draw_seed(), np.uint64))
        COUNTS.ran += 1
        try:
            results = run(*taken)
        except XladevError as error:
            raise as_torch(error.at(where)) from error
        for check, give in checks:
            adapter.check_decomposition(
                give(results[check.result]), check.function, check.is_matrix
            )
        for result, at in lowered.updates:
            _update(args[at], results[result])
        found = [give(results, args) if callable(give) else give for give in givers]
        args.clear()
        return found

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _arguments(args: Sequence[Any], plan: Sequence[tuple[int, Any]]) -> list[Any]:
    """Arrays of the device, computed together now if they are not yet; views of the host's."""
    taken: list[Any] = []
    waiting: list[Node] = []
    for at, take in plan:
        tensor = args[at]
        if take is not None:
            taken.append(take(tensor))
            continue
        inner: Any = hooks.unwrapped(tensor) if hooks.is_functional(tensor) else tensor
        node = inner.handle.node
        taken.append(node)
        if node.value is None:
            waiting.append(node)
    if waiting:
        compute(waiting)
    return [each.value if isinstance(each, Node) else each for each in taken]


def _update(tensor: torch.Tensor, value: DeviceArray) -> None:
    """A tensor has a new value."""
    inner: Any = hooks.unwrapped(tensor)
    new = tensor_of(Node(inner.handle.node.spec, value=value), inner.handle.layout)
    hooks.replace(tensor, new)
    torch.autograd.graph.increment_version([tensor])


def _giver(how: Any, node: Any, values: Sizes) -> Give | Any:
    """A function of results and inputs that makes a result of the graph, or what it is."""
    if isinstance(how, Input):
        return _passed_on(how)
    if not isinstance(how, tuple):
        return how
    at, place = how
    example = node.meta["val"]
    if not is_ours(example):
        give = giver(place, shares_memory=False)
        return lambda results, _: give(results[at])
    spec, layout = _known(example, values)
    return lambda results, _: hooks.wrapped(tensor_of(Node(spec, value=results[at]), layout))


def _known(example: torch.Tensor, values: Sizes) -> tuple[Spec, Layout | None]:
    sizes, strides = (
        [adapter.concrete(n, values) for n in each] for each in (example.shape, example.stride())
    )
    with adapter.real_tensors():
        made = torch.empty_strided(sizes, strides, dtype=example.dtype, device="meta")
    return spec_of(made), layout_of(made)


def _passed_on(output: Input) -> Give:
    def see(_: Any, args: Sequence[Any]) -> Any:
        tensor = args[output.number]
        for view, rest in output.views:
            tensor = view(tensor, *rest)
        return tensor

    return see


PLACEMENT = Placement(lambda: the_device().name, caller)
"""Where graphs with tensors of the device run."""
