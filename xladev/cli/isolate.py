"""`xladev isolate`: names the pass, instruction or kernel that makes a program wrong."""

from __future__ import annotations

import argparse
import sys

from xladev.cli.inputs import given_inputs
from xladev.cli.output import indented, print_line, progress
from xladev.cli.programs import load_program
from xladev.cli.suspects import WRONG, add_suspect, keep, named, report_no_failure, suspect_of
from xladev.errors import printable_name
from xladev.runtime.registry import current_registry
from xladev.testing.debug.isolate import Culprit, Isolation, isolate
from xladev.testing.debug.suspect import Suspect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_suspect(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module = load_program(arguments.file)
    inputs = given_inputs(module, arguments)
    with suspect_of(arguments) as suspect, progress(f"isolating in {arguments.file.name}"):
        target = (
            current_registry().platform(suspect.platform).compile_target(suspect.options.target)
        )
        found = isolate(suspect, target, module, inputs)
    if not found.verdict.is_wrong:
        return report_no_failure(found.verdict, suspect)
    on = f"{printable_name(module.name)} on {suspect.platform}"
    print(f"{on}: {indented(found.verdict.detail)}")
    _report(found, arguments, suspect)
    return WRONG


def _report(found: Isolation, arguments: argparse.Namespace, suspect: Suspect) -> None:
    if found.step:
        print(f"the first that differs: after {found.step}, the program means something else")
        print(indented(found.finding))
        print(f"again: XLADEV_DUMP_TO=dumps xladev run {arguments.file}", file=sys.stderr)
        return
    print("passes: the program means the same after each of them")
    if found.culprit is None:
        print(f"kernels: each of {found.judged[1]} is right alone")
        if found.exchanges:
            print_line(f"not run alone, as they exchange data: {', '.join(found.exchanges)}")
        mended = ", ".join(found.mended_by)
        print(f"the whole program is right with: {mended or 'none of the options that were tried'}")
        print("so order, memory or joins are to blame; `xladev bisect` shrinks the program")
        return
    print(f"kernels: {found.judged[0]} of {found.judged[1]} were run alone; the last differs:")
    if found.devices > 1:
        replica, partition = found.culprit.device
        print(f"with the operands of replica {replica}, partition {partition}:")
    _report_culprit(found.culprit)
    keep(found.culprit.case, found.culprit.instruction.name, arguments, suspect)


_PLACE = {
    False: "within it, alone:",
    True: "within it, right alone, but not where the kernel computes its operands as well:",
}


def _report_culprit(culprit: Culprit) -> None:
    print_line(named(culprit.instruction))
    print(indented(culprit.verdict.detail))
    if culprit.inside is not None:
        print(_PLACE[culprit.inside.computes_operands])
        _report_culprit(culprit.inside)
    elif culprit.instruction.opcode == "fusion":
        names = ", ".join(i.name for i in culprit.instruction["calls"].instructions)
        print_line(f"within it, each instruction is right alone: {names}")
