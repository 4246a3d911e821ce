"""`xladev opt`: applies passes to a program and prints what became of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xladev.cli.convert import contents, write_output
from xladev.cli.output import check_least, print_table
from xladev.client import load
from xladev.errors import UsageError
from xladev.hlo.text import print_module
from xladev.hlo.verifier import verify
from xladev.passes.pipeline import HloPassPipeline, Instrumentation, timing_table
from xladev.passes.registry import PASSES, parse_passes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, nargs="?", help="HLO text or HloModuleProto")
    parser.add_argument("--passes", default="", help="such as call-inliner,cse,dce")
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="up to N times, while something changes"
    )
    parser.add_argument("--list", action="store_true", help="list the passes")
    parser.add_argument("--time", action="store_true", help="say how long each pass took")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    parser.add_argument("--proto", action="store_true", help="write a serialized proto")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        rows = [("PASS", "WHAT IT DOES")]
        rows += [(n, (p.__doc__ or "").strip().splitlines()[0]) for n, p in sorted(PASSES.items())]
        print_table(rows)
        return 0
    if arguments.file is None:
        raise UsageError("no file was given", hint="xladev opt FILE --passes cse,dce")
    check_least("--rounds", arguments.rounds, 1)
    module = load(arguments.file)
    around = Instrumentation(check=verify, text=print_module)
    pipeline = HloPassPipeline("opt", parse_passes(arguments.passes), arguments.rounds)
    module = pipeline.run_instrumented(module, around)
    write_output(arguments.output, contents(module, "proto" if arguments.proto else "text"))
    if arguments.time:
        print(timing_table(around.records), file=sys.stderr)
    return 0
