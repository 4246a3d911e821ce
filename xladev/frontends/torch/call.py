"""Compiled graphs as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from xladev.client import CompiledModule
from xladev.errors import XladevError
from xladev.frontends.torch import adapter
from xladev.frontends.torch.errors import as_torch
from xladev.frontends.torch.exchange import giver, taker
from xladev.frontends.torch.graph import Input, LoweredGraph

LEAST_DONATED_NBYTES = 1 << 20
"""What a program changes in place is donated from this size on, all together; smaller tensors are
copied, since a call that donates nothing takes the short way. A training step of ResNet-18, with
its batch norms, makes a tenth of the calls of Python functions so."""


def draw_seed() -> Any:
    """Two random words from torch's generator, which goes on by them."""
    return torch.randint(0, 1 << 62, (2,), dtype=torch.int64, device="cpu").numpy().view(np.uint64)


def caller(lowered: LoweredGraph, run: CompiledModule) -> Callable[[list[Any]], list[Any]]:
    """A function of the graph's inputs, which it takes out of a list that it empties.

    It raises an XladevError that is of torch's usual class too where the run fails.
    """
    shares_memory = run.devices[0].description.host_addressable
    takers = [None if place is None else taker(place) for place in lowered.inputs]
    numbers = [at for at, take in enumerate(takers) if take is not None]
    plan = [(at, takers[at]) for at in numbers]
    givers = _givers(lowered, shares_memory=shares_memory)
    donated = _donated(lowered, numbers) if shares_memory else []
    updates = [
        (result, at, giver(_place(lowered, at), shares_memory=shares_memory))
        for result, at in lowered.updates
    ]
    checks = [(each, giver(each.place, shares_memory=shares_memory)) for each in lowered.checks]
    has_seed = lowered.has_seed
    where = f"program {run.program.name}"

    def call(args: list[Any]) -> list[Any]:
        taken = [take(args[at]) for at, take in plan]  # type: ignore[misc]
        if has_seed:
            taken.append(draw_seed())
        try:
            results = run(*taken, donate=donated) if donated else run(*taken)
        except XladevError as error:
            raise as_torch(error.at(where)) from error
        for check, give in checks:
            adapter.check_decomposition(
                give(results[check.result]), check.function, check.is_matrix
            )
        if updates:
            _write_back([args[at] for _, at, _ in updates], [g(results[r]) for r, _, g in updates])
        found = [give(results, args) if callable(give) else give for give in givers]
        args.clear()
        return found

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _donated(lowered: LoweredGraph, numbers: Sequence[int]) -> list[int]:
    """Parameters whose memory the program may write to."""
    nbytes = sum(_place(lowered, at).shape.nbytes for _, at in lowered.updates)
    if nbytes < LEAST_DONATED_NBYTES:
        return []
    return [numbers.index(at) for _, at in lowered.updates]


def _write_back(tensors: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """New values in the tensors' own memory; they are there already if that was donated."""
    pairs = zip(tensors, values, strict=True)
    copied = [(t, v) for t, v in pairs if t.data_ptr() != v.data_ptr()]
    with torch.no_grad():
        for group in _alike(copied).values():
            torch._foreach_copy_([t for t, _ in group], [v for _, v in group])
    torch.autograd.graph.increment_version(tensors)


def _alike(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> dict[Any, list[Any]]:
    """By type: tensors of one are copied in one call."""
    found: dict[Any, list[Any]] = {}
    for pair in pairs:
        found.setdefault(pair[0].dtype, []).append(pair)
    return found


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
