"""`xladev explain`: which instructions became one kernel, and why the others did not."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xladev.cli.inputs import add_options, given_options
from xladev.cli.output import print_json
from xladev.client import load
from xladev.compiler.fusion import is_free, is_kernel, kernel_programs
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.instrument import Decision, collect_decisions
from xladev.runtime.registry import current_registry
from xladev.testing.debug.forms import KERNELS, forms_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="HLO text or serialized HloModuleProto")
    parser.add_argument("--platform", default="cpu", help="whose kernels (default: cpu)")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module = load(arguments.file)
    kernels, decisions = _formed(module, arguments.platform, given_options(arguments))
    if kernels is None:
        print(f"{arguments.platform} forms its kernels itself: there is nothing to tell")
        return 0
    reasons: dict[str, list[str]] = {}
    for d in decisions:
        reasons.setdefault(d.name, []).append(d.why)
    report = [_kernel(i, reasons) for i in _kernels(kernels)]
    if arguments.json:
        print_json({"module": module.name, "kernels": report})
    else:
        _print(module, report)
    return 0


def _formed(
    module: HloModule, name: str, options: CompileOptions
) -> tuple[HloModule | None, Sequence[Decision]]:
    """The module of kernels, and what the passes that formed them decided."""
    platform = current_registry().platform(name)
    target = platform.compile_target(options.target)
    with collect_decisions() as decisions:
        last = forms_of(module, target, options)[-1]
    return (last.module if last.step == KERNELS else None), decisions


def _kernels(module: HloModule) -> Iterator[HloInstruction]:
    """All kernels, those of loops and branches too."""
    programs = kernel_programs(module)
    for computation in module.computations:
        if computation.name in programs:
            yield from (i for i in computation.instructions if is_kernel(i) and not is_free(i))


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


def _print(module: HloModule, report: Sequence[Mapping[str, Any]]) -> None:
    for kernel in report:
        counts = (f"{n} x {op}" if n > 1 else op for op, n in kernel["opcodes"].items())
        print(f"{kernel['name']}: {', '.join(counts)}")
        for result in kernel["results"]:
            print(f"  {result['name']} {result['shape']}")
            for why in result["reasons"]:
                print(f"    {why}")
    count = sum(sum(kernel["opcodes"].values()) for kernel in report)
    print(f"{module.name}: {len(report)} kernels of {count} instructions")
