"""What a graph is coloured by besides the program: measured times of a trace, kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xladev.errors import ArgumentError
from xladev.hlo.ir import HloModule
from xladev.profiling.graph.model import Colouring, MeasuredNode

_KERNEL = "kernel"


def with_times(known: Colouring, document: Mapping[str, Any], module: HloModule) -> Colouring:
    """The colouring with times, summed over a trace.

    A kernel that is no instruction of the module gives its time to those that it computes.

    Args:
        known: what else is known.
        document: a Chrome trace, whose slices say ``hlo_op`` and ``hlo_module``, or have the
            category ``kernel``.
        module: whose instructions are looked for.

    Raises:
        ArgumentError: no slice is of an instruction of the module.
    """
    names = {i.name for c in module.computations for i in c.instructions}
    times: dict[str, MeasuredNode] = {}
    fusions = dict(known.fusions)
    within: dict[str, list[str]] = {}
    for name, kernel in fusions.items():
        within.setdefault(kernel, []).append(name)
    own = (module.name, "", *(f"{c.name}." for c in module.computations))
    slices = list(_slices(document))
    for each in slices:
        if not _is_of(each, own):
            continue
        computed = dict.fromkeys((*each.parts, *within.get(each.name, ())))
        parts = [part for part in computed if part in names]
        for name in [each.name] if each.name in names else parts:
            times[name] = times.get(name, MeasuredNode()).plus(each.seconds)
            if name != each.name:
                fusions.setdefault(name, each.name)
    if not times:
        raise _no_match(module, [each for each in slices if not _is_of(each, own)], bool(slices))
    return replace(known, times=times, fusions=fusions)


@dataclass(frozen=True, slots=True)
class _Slice:
    """What a trace says of one run of a kernel: its name, its program, what is fused in it."""

    name: str
    module: str
    parts: tuple[str, ...]
    seconds: float


def _slices(document: Mapping[str, Any]) -> Iterator[_Slice]:
    """The kernels of a trace; damaged events are left out."""
    events = document.get("traceEvents")
    for event in events if isinstance(events, list) else ():
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        name = args.get("hlo_op", event.get("name") if event.get("cat") == _KERNEL else None)
        micros = event.get("dur")
        if isinstance(name, str) and isinstance(micros, (int, float)) and 0 <= micros < 1e15:
            parts = tuple(str(args.get("fused", "")).split())
            yield _Slice(name, str(args.get("hlo_module", "")), parts, micros * 1e-6)


def _is_of(each: _Slice, own: tuple[str, ...]) -> bool:
    """True for the program, and for a part of a computation that was launched by itself."""
    return each.module in own[:2] or each.module.startswith(own[2:])


def _no_match(module: HloModule, others: list[_Slice], has_kernels: bool) -> ArgumentError:
    why = "its kernels are other ones than those shown" if has_kernels else "it has no kernels"
    hint = "with --platform NAME, the kernels that ran there are shown"
    if others:
        names = sorted({each.module for each in others})
        why = f"it has kernels of {', '.join(names[:5])}"
        hint = f"record one of {module.name}: `xladev run FILE --trace trace.json`"
    return ArgumentError(
        f"the trace has no time of an instruction of {module.name}",
        why=why,
        hint=hint,
    )


def kernels_of(kernels: HloModule) -> dict[str, str]:
    """The kernel that each instruction became, by their names.

    An instruction that several kernels compute is named with the first.
    """
    found: dict[str, str] = {}
    for computation in kernels.computations:
        for i in computation.instructions:
            for inner in i["calls"].instructions if i.opcode == "fusion" else ():
                if inner.opcode != "parameter":
                    found.setdefault(inner.name, i.name)
            if i.opcode == "get-tuple-element" and i.operands[0].opcode == "fusion":
                found[i.name] = i.operands[0].name  # a result of several keeps its name here
    return found
