"""Compiled graphs as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from xladev.client import CompiledModule
from xladev.frontends.torch import adapter
from xladev.frontends.torch.exchange import giver, taker
from xladev.frontends.torch.graph import Input, LoweredGraph


def draw_seed() -> Any:
    """Two random words from torch's generator, which goes on by them."""
    return torch.randint(0, 1 << 62, (2,), dtype=torch.int64, device="cpu").numpy().view(np.uint64)


def caller(lowered: LoweredGraph, run: CompiledModule) -> Callable[[list[Any]], list[Any]]:
    """A function of the graph's inputs, which it takes out of a list that it empties."""
    shares_memory = run.devices[0].description.host_addressable
    takers = [None if place is None else taker(place) for place in lowered.inputs]
    numbers = [at for at, take in enumerate(takers) if take is not None]
    plan = [(at, takers[at]) for at in numbers]
    givers = _givers(lowered, shares_memory=shares_memory)
    donated = [numbers.index(at) for _, at in lowered.updates] if shares_memory else []
    updates = [
        (result, at, giver(_place(lowered, at), shares_memory=shares_memory))
        for result, at in lowered.updates
    ]
    checks = [(each, giver(each.place, shares_memory=shares_memory)) for each in lowered.checks]
    has_seed = lowered.has_seed

    def call(args: list[Any]) -> list[Any]:
        taken = [take(args[at]) for at, take in plan]  # type: ignore[misc]
        if has_seed:
            taken.append(draw_seed())
        results = run(*taken, donate=donated) if donated else run(*taken)
        for check, give in checks:
            adapter.check_decomposition(
                give(results[check.result]), check.function, check.is_matrix
            )
        for result, at, give in updates:
            _write_back(args[at], give(results[result]))
        found = [give(results, args) if callable(give) else give for give in givers]
        args.clear()
        return found

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _write_back(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """The new value in the tensor's own memory; it is there already if that was donated."""
    if tensor.data_ptr() != value.data_ptr():
        with torch.no_grad():
            tensor.copy_(value)
    torch.autograd.graph.increment_version(tensor)


def _place(lowered: LoweredGraph, at: int) -> Any:
    place = lowered.inputs[at]
    assert place is not None
    return place


def _givers(lowered: LoweredGraph, *, shares_memory: bool) -> Sequence[Any]:
    """For each result of the graph, a function of results and inputs, or what it is."""
    made: list[Any] = []
    for output in lowered.outputs:
        if isinstance(output, Input):
            made.append(_passed_on(output))
            continue
        if not isinstance(output, tuple):
            made.append(output)
            continue
        made.append(_one(output[0], giver(output[1], shares_memory=shares_memory)))
    return made


def _one(at: int, give: Callable[[Any], torch.Tensor]) -> Callable[[Any, Any], torch.Tensor]:
    return lambda results, args: give(results[at])


def _passed_on(output: Input) -> Callable[[Any, Any], torch.Tensor]:
    def see(results: Any, args: Any) -> torch.Tensor:
        tensor = args[output.number]
        for view, rest in output.views:
            tensor = view(tensor, *rest)
        return tensor

    return see
