"""`xladev explain`: where instructions run, what became one kernel, what is copied, and why."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xladev.cli.collective_report import collective_rows, print_collectives
from xladev.cli.inputs import add_options, given_options
from xladev.cli.network import add_network
from xladev.cli.output import print_json, print_line, progress
from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.cli.sharding_report import print_shardings, sharding_report
from xladev.cli.whereabouts import copy_rows, placement_rows, print_copies, print_places
from xladev.client import find_device, host_targets
from xladev.compiler.compile import compile_recorded
from xladev.compiler.compile_record import CompileRecord
from xladev.compiler.fusion.instruction_fusion import is_free
from xladev.errors import counted
from xladev.runtime.device_name import parse_device_name
from xladev.runtime.registry import current_registry
from xladev.testing.debug.placement import (
    PlacedKernel,
    copied_values,
    formers,
    kernels,
    placements,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help=PROGRAM_HELP)
    parser.add_argument("--platform", default="cpu", help="where it should run (default: cpu)")
    parser.add_argument("--all", action="store_true", help="list each instruction and each copy")
    parser.add_argument(
        "--sharding", action="store_true", help="how values are cut over devices, and what moves"
    )
    add_network(
        parser,
        "what collectives go over, such as 4x2; default: as the program says",
    )
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module, options = load_program(arguments.file), given_options(arguments)
    if arguments.sharding:
        shown = sharding_report(module, options.num_partitions)
        print_json(shown) if arguments.json else print_shardings(shown)
        return 0
    registry = current_registry()
    platform = registry.platform(arguments.platform)
    ordinal = parse_device_name(arguments.platform).ordinal
    target = replace(platform.compile_target(options.target), ordinal=ordinal or 0)
    with progress(f"compiling {arguments.file.name}"):
        record = compile_recorded(
            module,
            target,
            options,
            partial(host_targets, registry, platform),
            partial(find_device, registry, platform, target),
        )
    report = explained(record)
    report["collectives"] = collective_rows(record.module, module, arguments)
    if arguments.json:
        print_json(report)
    else:
        _print(report, all_of_them=arguments.all)
    return 0


def explained(record: CompileRecord) -> dict[str, Any]:
    """What a compilation did, as plain data."""
    return {
        "module": record.module.name,
        "platform": record.program.platforms[0],
        "kernels": [_kernel(kernel) for kernel in kernels(record)],
        "form_kernels_themselves": list(formers(record)),
        "placements": placement_rows(placements(record)),
        "estimates": [
            {"placement": what, "seconds": seconds} for what, seconds in record.assignment.estimates
        ],
        "copies": copy_rows(copied_values(record)),
    }


def _kernel(placed: PlacedKernel) -> dict[str, Any]:
    """A kernel, with what was decided on its results, and on all of it."""
    i, reasons = placed.kernel, placed.reasons
    body = i["calls"].instructions if i.opcode == "fusion" else (i,)
    root = body[-1] if i.opcode != "fusion" else i["calls"].root
    results = root.operands if root.opcode == "tuple" else (root,)
    whole = reasons.get(i.name, ()) if len(results) == 1 and i is not root else ()
    is_step = [j for j in body if j.opcode not in ("parameter", "tuple")]
    steps = [j for j in is_step if not is_free(j)] or is_step
    return {
        "name": i.name,
        "platform": placed.platform,
        "runs": placed.runs,
        "opcodes": dict(Counter(j.opcode for j in steps)),
        "results": [
            {
                "name": r.name,
                "shape": r.shape.to_string(layout=False),
                "reasons": list(dict.fromkeys((*reasons.get(r.name, ()), *whole))),
            }
            for r in results
        ],
    }


def _print(report: Mapping[str, Any], *, all_of_them: bool) -> None:
    for name in report["form_kernels_themselves"]:
        print(f"{name} forms its kernels itself: there is nothing to tell")
    if report["kernels"] or not report["form_kernels_themselves"]:
        _print_kernels(report["module"], report["platform"], report["kernels"])
    print_places(report["placements"], report["platform"], all_of_them=all_of_them)
    for n, row in enumerate(report["estimates"]):
        said = "a run is estimated to take" if n == 0 else "it would take"
        print_line(f"{said} {row['seconds'] * 1e6:,.1f} us: {row['placement']}")
    print_copies(report["copies"], all_of_them=all_of_them)
    print_collectives(report["collectives"])


def _print_kernels(name: str, target: str, rows: Sequence[Mapping[str, Any]]) -> None:
    for kernel in rows:
        counts = (f"{n} x {op}" if n > 1 else op for op, n in kernel["opcodes"].items())
        where = "" if kernel["platform"] == target else f", on {kernel['platform']}"
        times = "" if kernel["runs"] == 1 else f", in {kernel['runs']} places"
        print_line(f"{kernel['name']}: {', '.join(counts)}{where}{times}")
        for result in kernel["results"]:
            print_line(f"  {result['name']} {result['shape']}")
            for why in result["reasons"]:
                print_line(f"    {why}")
    platforms = dict.fromkeys((target, *(kernel["platform"] for kernel in rows)))
    told = [_counted([k for k in rows if k["platform"] == each]) for each in platforms]
    on = [f" on {each}" if len(platforms) > 1 else "" for each in platforms]
    print_line(f"{name}: {', '.join(map(str.__add__, told, on))}")


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    count = sum(sum(kernel["opcodes"].values()) for kernel in rows)
    return f"{counted(len(rows), 'kernel')} of {counted(count, 'instruction')}"
