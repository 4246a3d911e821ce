"""The backend that `torch.compile(model, backend="xladev")` finds by its entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from xladev.frontends.torch import adapter, chunked_losses
from xladev.frontends.torch.compile import compile_graph
from xladev.frontends.torch.errors import told_as_torch
from xladev.frontends.torch.lower.every import LOWERINGS
from xladev.frontends.torch.recurrent_layers import CALLS, DECOMPOSITIONS, by_layers
from xladev.frontends.torch.settings import Settings, settings_of


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """What torch takes apart before a graph is lowered."""
    return {
        **adapter.decompositions(LOWERINGS),
        **DECOMPOSITIONS,
        **chunked_losses.DECOMPOSITIONS,
    }


def graph_compilers(settings: Settings) -> Callable[[str], adapter.GraphCompiler]:
    """For each kind of graph, what compiles it."""

    def of_kind(kind: str) -> adapter.GraphCompiler:
        def compile_one(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
            with told_as_torch(f"the {kind} graph"):
                return compile_graph(graph, kind, settings)

        return compile_one

    return of_kind


def xladev(
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured, with its gradient.

    Args:
        graph: what was captured.
        examples: its inputs.
        mode: torch.compile's.
        options: ``platform``, and any other of docs/reference/options.md.

    Dynamo wraps what this raises in its own `BackendCompilerFailed`, a `RuntimeError`.

    Raises:
        UnsupportedError: a version of torch that this front end does not know.
        OptionError: an option that does not exist.
        DeviceError: no such platform.
    """
    with told_as_torch("torch.compile"):
        adapter.check_version()
        settings = settings_of(mode, options)
    compiled = adapter.ahead_of_time(graph_compilers(settings), decompositions())
    return compiled(by_layers(graph), examples)


adapter.admit_recurrent_modules(xladev, tuple(CALLS), DECOMPOSITIONS)
