"""`xladev bisect`: shrinks a failing program to the few instructions that still fail."""

from __future__ import annotations

import argparse

from xladev.cli.inputs import given_inputs
from xladev.cli.output import check_least, indented, progress
from xladev.cli.programs import load_program
from xladev.cli.suspects import WRONG, add_suspect, keep, report_no_failure, suspect_of
from xladev.errors import counted, printable_name
from xladev.hlo.text import print_module
from xladev.runtime.registry import current_registry
from xladev.testing.debug.bisect import bisect

_SHOWN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_suspect(parser)
    parser.add_argument(
        "--budget", type=float, default=120.0, metavar="S", help="seconds to shrink; default 120"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    check_least("--budget", arguments.budget, 0)
    module = load_program(arguments.file)
    inputs = given_inputs(module, arguments)
    with suspect_of(arguments) as suspect, progress(f"bisecting {arguments.file.name}"):
        platform = current_registry().platform(suspect.platform)
        target = platform.compile_target(suspect.options.target)
        found = bisect(suspect, module, inputs, budget_s=arguments.budget, target=target)
    if found.reduction is None:
        return report_no_failure(found.verdict, suspect)
    small = found.reduction.module
    on = f"{printable_name(module.name)} on {suspect.platform}"
    print(f"{on}: {indented(found.verdict.detail)}")
    print(
        f"{counted(module.instruction_count, 'instruction')} became {small.instruction_count}, "
        f"after {counted(found.reduction.tried, 'program')}"
    )
    if not found.reduction.complete:
        print("time ran out: --budget gives more")
    if small.instruction_count <= _SHOWN:
        print(f"\n{print_module(small).strip()}\n")
    print(indented(found.last.detail))
    if found.step:
        print(f"the first that differs: after {found.step}, the program means something else")
        print(indented(found.finding))
    name = f"{arguments.file.stem}.small"
    keep((small, found.reduction.arguments), name, arguments, suspect)
    return WRONG
