"""`xladev run`: compiles a program, runs it, checks its results, counts and times."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xladev.cli.compile_times import compile_times, shown_compile_times
from xladev.cli.debugging import debug_lines, no_anomaly
from xladev.cli.inputs import add_inputs, add_options, given_inputs, given_options
from xladev.cli.output import check_least, print_json, print_line, print_table, progress
from xladev.cli.processes import join_launched, spawn
from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.client import CompiledModule, compile
from xladev.compiler.placement.placement_log import set_log_device_placement
from xladev.distributed import process_count, process_index
from xladev.errors import ArgumentError, counted
from xladev.hlo.ir import HloModule
from xladev.instrument import tracing
from xladev.profiling.timeline import profile
from xladev.testing.arrays import named_arrays, read_arrays, save_arrays
from xladev.testing.comparison import (
    DEFAULT_RTOL,
    LAST_PLACES,
    difference,
    expect_as_dtype_allows,
    expect_relative,
)
from xladev.testing.debug.anomalies import TESTS
from xladev.testing.differential import compare_results, run_on_platform

_DEFINITION = "interpreter"
_RTOL = (
    f"of comparisons; default {DEFAULT_RTOL}, for f16 and narrower {LAST_PLACES} units in the last "
    "place, against the interpreter what rounding explains"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help=PROGRAM_HELP)
    parser.add_argument("--platform", help="platform, kind or device, such as cpu or npu:1")
    add_inputs(parser)
    parser.add_argument("--check", type=Path, help="npz with out_* to compare with")
    parser.add_argument("--against", metavar="PLATFORM", help="compare with another platform")
    parser.add_argument("--rtol", type=float, help=_RTOL)
    parser.add_argument("--iterations", type=int, default=1, metavar="N", help="run N times")
    parser.add_argument("--save", type=Path, help="write in_* and out_* to an npz")
    parser.add_argument("--stats", action="store_true", help="regions, fallbacks, memory, times")
    parser.add_argument(
        "--debug", choices=sorted(TESTS), help="name the instruction that makes the first one"
    )
    parser.add_argument("--trace", type=Path, metavar="PATH", help="write a timeline")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="divide the program between N processes",
    )
    parser.add_argument(
        "--log-placement", action="store_true", help="say where each instruction runs"
    )
    parser.add_argument("--strict", action="store_true", help="a fallback is an error")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    check_least("--processes", arguments.processes, 1)
    if arguments.processes > 1 and (code := spawn(arguments.processes)) is not None:
        return code
    join_launched()
    if arguments.trace is None:
        return _run_program(arguments)
    if process_count() > 1:
        with profile() as timeline:
            code = _run_program(arguments)
        timeline.save_together(arguments.trace)
        if process_index():
            return code
    else:
        with profile(arguments.trace):
            code = _run_program(arguments)
    print(f"timeline: {arguments.trace}", file=sys.stderr if arguments.json else sys.stdout)
    return code


def _run_program(arguments: argparse.Namespace) -> int:
    check_least("--iterations", arguments.iterations, 1)
    check_least("--rtol", 0.0 if arguments.rtol is None else arguments.rtol, 0)
    options = given_options(arguments)
    if arguments.log_placement:
        set_log_device_placement(True)
    if arguments.strict:
        options = options.with_option("strict")
    start = time.perf_counter()
    watching = tracing(sources=False)
    with progress(f"compiling {arguments.file.name}"), watching as trace:
        module = load_program(arguments.file)
        compiled = compile(module, arguments.platform, options)
    times = compile_times(trace.events, time.perf_counter() - start)
    shapes = compiled.program.signature.parameters
    inputs = given_inputs(module, arguments, shapes, arguments.check)
    with progress(f"running {arguments.file.name}"):
        results, seconds = _timed(compiled, inputs, arguments.iterations)
    problems = _problems(module, compiled, results, inputs, arguments)
    if arguments.save is not None and process_index() == 0:
        save_arrays(arguments.save, _flat(inputs), results)
    report = _report(compiled, results, times, seconds, problems)
    if arguments.debug is not None:
        with progress(f"looking for {arguments.debug}"):
            report["debug"] = debug_lines(module, inputs, arguments.debug)
    if process_index() == 0 or any(problems.values()):
        _show(report, arguments)
    return 1 if any(problems.values()) or report.get("debug") else 0


def _show(report: dict[str, Any], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(report)
    else:
        _print(report, arguments)


def _timed(
    compiled: CompiledModule, inputs: Sequence[Any], iterations: int
) -> tuple[list[Any], list[float]]:
    seconds: list[float] = []
    results: list[Any] = []
    for _ in range(iterations):
        start = time.perf_counter()
        results = [np.asarray(leaf) for leaf in _flat(compiled(*inputs)) if leaf is not None]
        seconds.append(time.perf_counter() - start)
    return results, seconds


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _flat(part)]
    return [value]


def _problems(
    module: HloModule,
    compiled: CompiledModule,
    results: Sequence[Any],
    inputs: Sequence[Any],
    arguments: argparse.Namespace,
) -> dict[str, list[str]]:
    """What is wrong, by what was compared with."""
    problems: dict[str, list[str]] = {}
    if arguments.check is not None:
        wanted = read_arrays(arguments.check, "out_", (compiled.program.signature.result,))
        if wanted is None:
            raise ArgumentError(
                f"{arguments.check} has no arrays called out_*",
                where=str(arguments.check),
                hint="arrays are called out_0000, out_0001, ...; `xladev run --save` writes them",
            )
        problems[str(arguments.check)] = _compared(results, _flat(wanted), arguments.rtol)
    if arguments.against is not None:
        problems[arguments.against] = _against(module, compiled, results, inputs, arguments)
    return problems


def _against(
    module: HloModule,
    compiled: CompiledModule,
    results: Sequence[Any],
    inputs: Sequence[Any],
    arguments: argparse.Namespace,
) -> list[str]:
    """What differs from another platform; from the interpreter, more than rounding explains."""
    if len(compiled.devices) > 1:
        rows = compiled.run_on_devices([inputs] * len(compiled.devices))
        results = [np.asarray(x) for row in rows for x in _flat(row) if x is not None]
    with progress(f"running on {arguments.against}"):
        wanted = run_on_platform(module, inputs, arguments.against)
    if arguments.rtol is not None or arguments.against != _DEFINITION:
        return _compared(results, wanted, arguments.rtol)
    with progress("measuring what rounding explains"):
        finding = compare_results(module, inputs, results, wanted)
    return [] if finding is None else [str(finding)]


def _compared(results: Sequence[Any], wanted: Sequence[Any], rtol: float | None) -> list[str]:
    if len(results) != len(wanted):
        return [f"{counted(len(results), 'result')}, want {len(wanted)}"]
    check = expect_as_dtype_allows if rtol is None else expect_relative(rtol)
    texts = [difference(check, got, want) for got, want in zip(results, wanted, strict=True)]
    return [f"result {n}: {text}" for n, text in enumerate(texts) if text]


def _report(
    compiled: CompiledModule,
    results: Sequence[Any],
    times: dict[str, float],
    seconds: Sequence[float],
    problems: dict[str, list[str]],
) -> dict[str, Any]:
    program = compiled.program
    return {
        "module": program.name,
        "device": compiled.devices[0].name,
        "processes": process_count() if compiled.is_spread else 1,
        "compile_s": sum(times.values()),
        "compile_steps_s": times,
        "iterations": len(seconds),
        "first_s": seconds[0],
        "median_s": statistics.median(seconds),
        "results": named_arrays(results),
        "instructions": dict(program.instruction_counts),
        "regions": program.region_counts(),
        "floating_point_work": dict(program.work_counts),
        "fallbacks": [str(f) for f in program.fallbacks],
        "scratch_nbytes": sum(e.signature.scratch_nbytes for e in program.executables),
        "code_nbytes": sum(e.nbytes for e in program.executables),
        "problems": problems,
    }


def _among(processes: int) -> str:
    return f" in each of {processes} processes" if processes > 1 else ""


def _print(report: dict[str, Any], arguments: argparse.Namespace) -> None:
    place = f"{report['device']}{_among(report['processes'])}"
    print_line(
        f"{report['module']} on {place}: compiled in {report['compile_s']:.3f} s, "
        f"ran {report['iterations']} time(s), median {1e3 * report['median_s']:.3f} ms"
    )
    rows = [("RESULT", "SHAPE", "MEAN", "FIRST VALUES")]
    rows += [(r["name"], r["shape"], r["mean"], r["values"]) for r in report["results"]]
    print_table(rows)
    if arguments.stats:
        _print_stats(report)
    elif report["fallbacks"]:
        print(
            f"{counted(len(report['fallbacks']), 'instruction')} ran on the host; --stats says why"
        )
    if arguments.debug is not None:
        for line in report["debug"] or [no_anomaly(arguments.debug)]:
            print_line(line)
    for where, problems in report["problems"].items():
        print(f"check against {where}: " + ("FAILED" if problems else "passed"))
        for problem in problems:
            print(f"  {problem}")


def _print_stats(report: dict[str, Any]) -> None:
    for name in ("instructions", "regions"):
        counts = ", ".join(f"{count} on {where}" for where, count in report[name].items())
        print(f"{name}: {counts}")
    total = sum(report["floating_point_work"].values())
    if total:
        work = report["floating_point_work"].items()
        shares = ", ".join(f"{100 * count / total:.1f}% on {where}" for where, count in work)
        print(f"floating-point work: {shares} (of {total} operations; loop bodies count once)")
    print(f"scratch memory: {report['scratch_nbytes']} bytes; code: {report['code_nbytes']} bytes")
    for line in shown_compile_times(report["compile_steps_s"]):
        print(line)
    print(f"first run: {1e3 * report['first_s']:.3f} ms")
    for fallback in report["fallbacks"]:
        print_line(f"fallback: {fallback}")
