"""`xladev cost`: operations and bytes of each instruction or kernel, and the roofline."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xladev.cli.cost_mesh import show_mesh
from xladev.cli.inputs import add_options, given_options
from xladev.cli.network import add_network
from xladev.cli.output import check_least, print_json, print_line, print_table, progress
from xladev.cli.processes import join_launched, spawn
from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.client import host_targets
from xladev.compiler.cost import (
    InstructionCost,
    ProgramCost,
    loop_iterations,
    program_cost,
    roofline,
)
from xladev.compiler.description import DeviceDescription
from xladev.compiler.options import CompileOptions
from xladev.errors import UsageError
from xladev.hlo.ir import HloModule
from xladev.runtime.registry import current_registry
from xladev.testing.debug.forms import forms_of

_HEAD = (
    "INSTRUCTION",
    "SHAPE",
    "ITERATIONS",
    "FLOPS",
    "FUNCTIONS",
    "BYTES",
    "FLOPS/BYTE",
    "LEAST",
    "",
)

_SHOWN_RATES = MappingProxyType(
    {"G/s of f32": "f32", "G/s of bf16": "bf16", "G/s of f64": "f64", "GB/s of memory": "memory"}
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help=PROGRAM_HELP)
    parser.add_argument(
        "--platform", help="show its kernels, and the least time that its rates allow"
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows; default 20")
    add_network(parser, "predict a step on devices such as 16x16")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run the part of a device here, in as many processes as a machine has devices",
    )
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    check_least("--top", arguments.top, 1)
    if arguments.measure:
        if arguments.mesh is None or arguments.platform is None:
            raise UsageError(
                "a step is measured on a platform, as one of a mesh",
                hint="say --mesh and --platform too",
            )
        if arguments.per_host > 1 and (code := spawn(arguments.per_host)) is not None:
            return code
        join_launched()
    module, device = load_program(arguments.file), None
    plain = module
    if arguments.platform is None:
        cost = program_cost(module)
    else:
        with progress(f"compiling {arguments.file.name}"):
            cost, device, plain = _on_platform(module, arguments.platform, given_options(arguments))
    if arguments.mesh is not None:
        return show_mesh(module, plain, cost, device, arguments)
    report = _report(module, cost, device)
    if arguments.json:
        print_json(report)
    else:
        _print(report, arguments.top)
    return 0


def _on_platform(
    module: HloModule, name: str, options: CompileOptions
) -> tuple[ProgramCost, DeviceDescription, HloModule]:
    """What the kernels of the program cost, the device, and the program before kernels."""
    registry = current_registry()
    platform = registry.platform(name)
    target = platform.compile_target(options.target)
    forms = forms_of(module, target, options, partial(host_targets, registry, platform))
    plain = next(form.module for form in reversed(forms) if not form.has_kernels)
    with progress(f"measuring the rates of {name}"):
        description = target.rated()
    return program_cost(forms[-1].module, loop_iterations(plain)), description, plain


def _report(
    module: HloModule, cost: ProgramCost, device: DeviceDescription | None
) -> dict[str, Any]:
    rows = [_row(each, device) for each in cost.instructions]
    times = [row["least_s"] for row in rows]
    return {
        "module": module.name,
        "device": None if device is None else device.name,
        "rates": _rates(device),
        "instructions": rows,
        "flops": cost.total.flops,
        "transcendentals": cost.total.transcendentals,
        "bytes_accessed": cost.total.bytes_accessed,
        "least_s": None if None in times else sum(times),
        "loops_counted_once": [i.name for i in cost.uncounted],
    }


def _rates(device: DeviceDescription | None) -> dict[str, float]:
    """Operations per second by type, and bytes per second of the memory, as far as known."""
    if device is None:
        return {}
    bandwidth = device.memory_spaces[0].bandwidth
    return dict(device.peak_flops) | ({"memory": bandwidth} if bandwidth else {})


def _row(each: InstructionCost, device: DeviceDescription | None) -> dict[str, Any]:
    total, least, bound = each.total, None, ""
    if device is not None:
        limits = roofline(each, device)
        known = limits.compute_s is not None or limits.memory_s is not None
        least, bound = (limits.seconds if known else None), limits.bound
    return {
        "name": each.instruction.name,
        "opcode": each.instruction.opcode,
        "shape": each.instruction.shape.to_string(layout=False),
        "source": each.instruction.note.metadata.location,
        "iterations": each.iterations,
        "flops": total.flops,
        "transcendentals": total.transcendentals,
        "bytes_accessed": total.bytes_accessed,
        "least_s": least,
        "bound": bound,
    }


def _print(report: dict[str, Any], top: int) -> None:
    rows = sorted(report["instructions"], key=_weight, reverse=True)
    print_table([_HEAD, *(_cells(row) for row in rows[:top])])
    if len(rows) > top:
        print(f"and {len(rows) - top} more: --top, or --json for all")
    print_line(
        f"{report['module']}: {report['flops']:,} floating-point operations, "
        f"{report['transcendentals']:,} transcendental functions, "
        f"{report['bytes_accessed']:,} bytes"
    )
    if report["least_s"] is not None:
        print(f"least time on {report['device']}: {_micros(report['least_s'])}{_by_rates(report)}")
    elif report["device"] is not None:
        print(f"{report['device']} does not say its rates: no least time")
    if report["loops_counted_once"]:
        print_line(
            f"loops of unknown length, counted once: {', '.join(report['loops_counted_once'])}"
        )


def _by_rates(report: dict[str, Any]) -> str:
    rates = report["rates"]
    known = [(name, rates[key]) for name, key in _SHOWN_RATES.items() if key in rates]
    shown = ", ".join(f"{rate / 1e9:,.3g} {name}" for name, rate in known)
    return f", at {shown}" if shown else ""


def _weight(row: dict[str, Any]) -> tuple[float, int, int]:
    return row["least_s"] or 0.0, row["bytes_accessed"], row["flops"]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    work = row["flops"] + row["transcendentals"]
    moved = row["bytes_accessed"]
    return (
        row["name"],
        row["shape"] if len(row["shape"]) <= 40 else row["shape"][:37] + "...",
        str(row["iterations"]),
        f"{row['flops']:,}",
        f"{row['transcendentals']:,}",
        f"{moved:,}",
        f"{work / moved:.2f}" if moved else "-",
        "-" if row["least_s"] is None else _micros(row["least_s"]),
        row["bound"],
    )


def _micros(seconds: float) -> str:
    return f"{1e6 * seconds:,.2f} us"
