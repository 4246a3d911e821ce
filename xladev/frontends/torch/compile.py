"""Compiles traced graphs: as one program, or in parts with torch running the rest."""

from __future__ import annotations

import copy
import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import xladev.client
from xladev.errors import XladevError, one_line
from xladev.frontends.torch import adapter, records
from xladev.frontends.torch.bounds.call import bounded_caller
from xladev.frontends.torch.bounds.plan import plan_of
from xladev.frontends.torch.bounds.rules import RULES
from xladev.frontends.torch.bounds.sizes import SizedCalls
from xladev.frontends.torch.call import caller
from xladev.frontends.torch.element_types import type_of
from xladev.frontends.torch.graph import (
    SeededBuilder,
    Sizes,
    held_by,
    is_check,
    lower_graph,
    lower_node,
    shape_of,
)
from xladev.frontends.torch.lower.every import LOWERINGS
from xladev.frontends.torch.lower.table import NotLowered
from xladev.frontends.torch.lower.value import Value
from xladev.frontends.torch.placement import is_known, placement_of
from xladev.frontends.torch.records import Fallback, GraphRecord
from xladev.frontends.torch.settings import Settings
from xladev.frontends.torch.symbols import Source, symbols_of
from xladev.instrument import logger

_log = logger("torch")
_numbers = itertools.count()
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
"""Where torch's own code is."""

Call = Callable[[list[Any]], Sequence[Any]]


def compile_graph(
    graph: torch.fx.GraphModule, kind: str, settings: Settings
) -> Callable[[list[Any]], Sequence[Any]]:
    """A graph as a function of a list of its inputs.

    Args:
        graph: as AOTAutograd makes it, its nodes holding fake results.
        kind: ``forward``, ``backward`` or ``inference``.
        settings: how.

    Raises:
        XladevError: a program that was lowered does not compile.
    """
    symbols = symbols_of(graph)
    if symbols:
        return _any_sizes(graph, kind, settings, symbols)
    return _compiled(graph, kind, settings, {})


def _boxed(call: Call) -> Call:
    """A function marked as one that empties its list: torch copies marks of functions alone."""

    def boxed(args: list[Any]) -> Sequence[Any]:
        return call(args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def _compiled(graph: torch.fx.GraphModule, kind: str, settings: Settings, sizes: Sizes) -> Call:
    refused = _refused(graph, settings, sizes)
    if refused and _is_strict(settings):
        node, reason = next(iter(refused.items()))
        raise NotLowered(f"{node.target} would run in torch", where=_place(node), why=reason,
                         hint=_WITHOUT_STRICT)  # fmt: skip
    if not refused:
        return _whole(graph, kind, settings, sizes)
    if sizes:  # the graph is taken apart where it is, and further sizes want it whole
        graph = copy.deepcopy(graph)
        refused = _refused(graph, settings, sizes)
    return _in_parts(graph, kind, settings, sizes, refused)


_WITHOUT_STRICT = "leave the option strict out, and torch runs it, between programs"


def _is_strict(settings: Settings) -> bool:
    """Whether nothing may run elsewhere than on the platform."""
    return settings.options is not None and settings.options.strict


def _place(node: torch.fx.Node) -> str:
    """The line of the user's program that calls an operator, or its node.

    Frames of torch itself, such as those of a default device, are not the user's.
    """
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    places = [line for line in lines if line.startswith("File ")]
    own = [line for line in places if not line.startswith(f'File "{_TORCH}')]
    found = own or places
    return f"{node}, {found[-1]}" if found else str(node)


def _whole(graph: torch.fx.GraphModule, kind: str, settings: Settings, sizes: Sizes) -> Call:
    call, run = _program(graph, kind, settings, sizes)
    records.add(GraphRecord(kind, _operators(graph), (run,), (), tuple(sizes.values())))
    return call


def _operators(graph: torch.fx.GraphModule) -> Counter[str]:
    return Counter(str(n.target) for n in graph.graph.nodes if n.op == "call_function")


def _program(
    graph: torch.fx.GraphModule, kind: str, settings: Settings, sizes: Sizes
) -> tuple[Call, xladev.client.CompiledModule]:
    lowered = lower_graph(graph, f"torch_{kind}_{next(_numbers)}", sizes)
    placement = placement_of(graph)
    platform = settings.platform if placement is None else placement.platform()
    run = xladev.client.compile(lowered.module, platform, settings.options)
    call = (
        caller(lowered, run) if placement is None else placement.caller(lowered, run, graph, sizes)
    )
    return call, run


# What is left to torch


def _refused(
    graph: torch.fx.GraphModule, settings: Settings, sizes: Sizes
) -> dict[torch.fx.Node, str]:
    """Calls that no program holds, and why."""
    refused = {}
    for node in graph.graph.nodes:
        reason = _reason(node, settings, sizes) if node.op == "call_function" else None
        if reason is not None:
            refused[node] = reason
    return refused


def _reason(node: torch.fx.Node, settings: Settings, sizes: Sizes) -> str | None:
    try:
        _know_sizes(node.meta.get("val"), sizes)
    except XladevError as error:
        return one_line(str(error))
    if _is_plain(node):
        return None
    lowering = LOWERINGS.get(str(node.target))
    if lowering is None:
        return f"{node.target} has no lowering"
    if settings.random_of_torch and lowering.family == "random":
        return "option fallback_random leaves random numbers to torch"
    example = node.meta.get("val")
    if isinstance(example, torch.Tensor) and not is_known(example.device):
        return "a tensor is neither on torch's CPU nor on a device of xladev"
    try:
        _try(node, sizes)
    except (XladevError, AssertionError) as error:
        return one_line(str(error))
    return None


def _know_sizes(made: Any, sizes: Sizes) -> None:
    """Looks at the sizes of what a call makes.

    Raises:
        XladevError: one is not known before the graph runs.
    """
    if isinstance(made, (list, tuple)):
        for each in made:
            _know_sizes(each, sizes)
    elif isinstance(made, torch.Tensor):
        shape_of(made, sizes)
    elif isinstance(made, torch.SymInt):
        adapter.concrete(made, sizes)


def _is_plain(node: torch.fx.Node) -> bool:
    """Picking a part, and numbers: no operators of their own."""
    if getattr(node.target, "__name__", "") == "getitem" or is_check(node):
        return True
    return isinstance(node.meta.get("val"), (int, torch.SymInt))


def _try(node: torch.fx.Node, sizes: Sizes) -> None:
    """Lowers one call by itself.

    Raises:
        XladevError: it has no lowering.
    """
    builder = SeededBuilder("try")

    def look(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return _operand(builder, value, sizes)
        if isinstance(value, (list, tuple)):
            return [look(each) for each in value]
        if isinstance(value, torch.dtype):
            return type_of(value)
        return value

    lower_node(builder, node, look, sizes)


def _operand(builder: SeededBuilder, node: torch.fx.Node, sizes: Sizes) -> Any:
    example = node.meta.get("val")
    if example is None and node.op == "get_attr":
        example = held_by(node.graph.owning_module, node)
    if isinstance(example, (int, torch.SymInt)):
        return adapter.concrete(example, sizes)
    shape = shape_of(example, sizes)
    if not isinstance(example, torch.Tensor):
        raise NotLowered(f"an operand of type {type(example).__name__}")
    return Value(builder, builder.parameter(shape))


def _in_parts(
    graph: torch.fx.GraphModule,
    kind: str,
    settings: Settings,
    sizes: Sizes,
    refused: Mapping[torch.fx.Node, str],
) -> Call:
    """What is lowered as programs, and torch's own kernels in between."""
    left = tuple(Fallback(str(node.target), reason) for node, reason in refused.items())
    for each in left:
        _log.info("torch runs %s: %s", each.operator, each.reason)
    names = _operators(graph)
    _know_constants(graph)
    parts = adapter.partitioned(graph, lambda node: _goes_into_program(node, refused))
    programs = []
    for name, part in list(parts.named_children()):
        if name.startswith("fused_"):
            call, run = _program(part, kind, settings, sizes)
            programs.append(run)
            setattr(parts, name, _Part(call, part))
    records.add(GraphRecord(kind, names, tuple(programs), left, tuple(sizes.values())))

    def call_parts(args: list[Any]) -> Sequence[Any]:
        taken = list(args)
        args.clear()
        found: Sequence[Any] = parts(*taken)
        return found

    call_parts._boxed_call = True  # type: ignore[attr-defined]
    return call_parts


def _know_constants(graph: torch.fx.GraphModule) -> None:
    """Gives constants the example that inputs have: in parts of the graph they are inputs."""
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            node.meta.setdefault("val", held_by(graph, node))


def _goes_into_program(node: torch.fx.Node, refused: Mapping[torch.fx.Node, str]) -> bool:
    if node.op == "get_attr" or is_check(node):
        return False
    changes_input = str(node.target) == "aten.copy_.default"
    return node.op == "call_function" and node not in refused and not changes_input


class _Part(torch.nn.Module):  # type: ignore[misc]
    """One program among torch's own calls."""

    def __init__(self, call: Call, part: torch.fx.GraphModule) -> None:
        super().__init__()
        self.call = call
        (output,) = [node for node in part.graph.nodes if node.op == "output"]
        self.is_alone = not isinstance(output.args[0], (list, tuple))

    def forward(self, *args: Any) -> Any:
        results = self.call(list(args))
        return results[0] if self.is_alone else results


# Symbolic sizes


def _any_sizes(
    graph: torch.fx.GraphModule, kind: str, settings: Settings, symbols: Mapping[Any, Source]
) -> Call:
    """A graph with symbolic sizes."""

    def exact(sizes: Sizes) -> Call:
        return _compiled(graph, kind, settings, sizes)

    def bounded(bounds: Sizes) -> Call:
        return _with_bounds(graph, kind, settings, symbols, bounds)

    def by_torch(reason: str) -> Call:
        if _is_strict(settings):
            raise NotLowered("a graph with further sizes would run in torch", where="torch.compile",
                             why=reason, hint=_WITHOUT_STRICT)  # fmt: skip
        left = Fallback("the graph, for further sizes", reason)
        records.add(GraphRecord(kind, _operators(graph), (), (left,)))
        return lambda args: _run_by_torch(graph, args)

    return _boxed(SizedCalls(symbols, settings.sizes, exact, bounded, by_torch))


def _with_bounds(
    graph: torch.fx.GraphModule,
    kind: str,
    settings: Settings,
    symbols: Mapping[Any, Source],
    bounds: Sizes,
) -> Call:
    """One program for all sizes up to bounds.

    Raises:
        NotLowered: it is not known how an operator leaves out what fills its operands up.
    """
    if placement_of(graph) is not None:
        raise NotLowered("tensors of a device are not filled up")
    for node, reason in _refused(graph, settings, bounds).items():
        raise NotLowered(f"{node.target} runs in torch", why=reason)
    plan = plan_of(graph, bounds, RULES)
    lowered = lower_graph(graph, f"torch_{kind}_{next(_numbers)}", bounds, plan=plan)
    run = xladev.client.compile(lowered.module, settings.platform, settings.options)
    sizes = tuple(bounds.values())
    records.add(GraphRecord(kind, _operators(graph), (run,), (), sizes, is_bound=True))
    return bounded_caller(graph, plan, symbols, caller(lowered, run))


def _run_by_torch(graph: torch.fx.GraphModule, args: list[Any]) -> Sequence[Any]:
    taken = list(args)
    args.clear()
    found: Sequence[Any] = graph(*taken)
    return found
