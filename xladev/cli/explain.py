"""`xladev explain`: where instructions run, what became one kernel, what is copied, and why."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xladev.cli.inputs import add_options, given_options
from xladev.cli.output import print_json, progress
from xladev.cli.whereabouts import copy_rows, placement_rows, print_copies, print_places
from xladev.client import host_targets, load
from xladev.compiler.assignment import CompileTarget
from xladev.compiler.fusion import is_free, is_kernel, kernel_programs
from xladev.compiler.leaves import is_grouping
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.instrument import collect_decisions
from xladev.runtime.registry import current_registry
from xladev.testing.debug.forms import KERNELS, forms_of
from xladev.testing.debug.placement import copied_values, placements


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="HLO text or serialized HloModuleProto")
    parser.add_argument("--platform", default="cpu", help="where it should run (default: cpu)")
    parser.add_argument("--all", action="store_true", help="list each instruction and each copy")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module, options = load(arguments.file), given_options(arguments)
    registry = current_registry()
    platform = registry.platform(arguments.platform)
    target = platform.compile_target(options.target)
    hosts = partial(host_targets, registry, platform)
    with progress(f"compiling {arguments.file.name}"):
        report = {
            "module": module.name,
            "platform": target.name,
            "kernels": _formed(module, target, options),
            "placements": placement_rows(placements(module, target, options, hosts)),
            "copies": copy_rows(copied_values(module, target, options, hosts)),
        }
    if arguments.json:
        print_json(report)
    else:
        _print(report, all_of_them=arguments.all)
    return 0


def _formed(
    module: HloModule, target: CompileTarget, options: CompileOptions
) -> list[dict[str, Any]] | None:
    """Kernels, with what the passes that formed them decided; None if the SDK forms none."""
    with collect_decisions() as decisions:
        last = forms_of(module, target, options)[-1]
    if last.step != KERNELS:
        return None
    reasons: dict[str, list[str]] = {}
    for d in decisions:
        reasons.setdefault(d.name, []).append(d.why)
    return [_kernel(i, reasons) for i in _kernels(last.module)]


def _kernels(module: HloModule) -> Iterator[HloInstruction]:
    """All kernels, those of loops and branches too."""
    programs = kernel_programs(module)
    for computation in module.computations:
        if computation.name in programs:
            yield from filter(_runs, computation.instructions)


def _runs(i: HloInstruction) -> bool:
    return is_kernel(i) and not is_free(i) and not is_grouping(i)


def _kernel(i: HloInstruction, reasons: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    body = i["calls"].instructions if i.opcode == "fusion" else (i,)
    root = body[-1] if i.opcode != "fusion" else i["calls"].root
    results = root.operands if root.opcode == "tuple" else (root,)
    whole = reasons.get(i.name, ()) if len(results) == 1 and i is not root else ()
    steps = [j for j in body if j.opcode not in ("parameter", "tuple") and not is_free(j)]
    return {
        "name": i.name,
        "opcodes": dict(Counter(j.opcode for j in steps)),
        "results": [
            {
                "name": r.name,
                "shape": r.shape.to_string(layout=False),
                "reasons": [
                    why for why in dict.fromkeys((*reasons.get(r.name, ()), *whole)) if why
                ],
            }
            for r in results
        ],
    }


def _print(report: Mapping[str, Any], *, all_of_them: bool) -> None:
    if report["kernels"] is None:
        print(f"{report['platform']} forms its kernels itself: there is nothing to tell")
    else:
        _print_kernels(report["module"], report["kernels"])
    print_places(report["placements"], report["platform"], all_of_them=all_of_them)
    print_copies(report["copies"], all_of_them=all_of_them)


def _print_kernels(name: str, kernels: Sequence[Mapping[str, Any]]) -> None:
    for kernel in kernels:
        counts = (f"{n} x {op}" if n > 1 else op for op, n in kernel["opcodes"].items())
        print(f"{kernel['name']}: {', '.join(counts)}")
        for result in kernel["results"]:
            print(f"  {result['name']} {result['shape']}")
            for why in result["reasons"]:
                print(f"    {why}")
    count = sum(sum(kernel["opcodes"].values()) for kernel in kernels)
    print(f"{name}: {len(kernels)} kernels of {count} instructions")
