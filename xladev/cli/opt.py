"""`xladev opt`: applies passes to a program and prints what became of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xladev.cli.convert import contents, write_output
from xladev.cli.inputs import add_options, given_options
from xladev.cli.output import check_least, print_table, progress
from xladev.cli.programs import load_program
from xladev.compiler.pass_table import SDK_PASSES, ListedPass, listed_passes, passes_of
from xladev.errors import UsageError
from xladev.hlo.text import print_module
from xladev.hlo.verifier import verify
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline, Instrumentation, timing_table
from xladev.passes.registry import parse_passes
from xladev.runtime.registry import current_registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, nargs="?", help="HLO text or HloModuleProto")
    parser.add_argument("--passes", default="", help="such as call-inliner,cse,dce")
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="up to N times, while something changes"
    )
    parser.add_argument(
        "--platform", help="with this platform's passes, and its answers to those of the SDK"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the passes; with --platform as it runs them"
    )
    parser.add_argument("--time", action="store_true", help="say how long each pass took")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    parser.add_argument("--proto", action="store_true", help="write a serialized proto")
    add_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    known, listed = _known(arguments)
    if arguments.list:
        _print_list(known, listed)
        return 0
    if arguments.file is None:
        raise UsageError("no file was given", hint="xladev opt FILE --passes cse,dce")
    check_least("--rounds", arguments.rounds, 1)
    module = load_program(arguments.file)
    around = Instrumentation(check=verify, text=print_module)
    pipeline = HloPassPipeline("opt", parse_passes(arguments.passes, known), arguments.rounds)
    with progress(f"applying passes to {arguments.file.name}"):
        module = pipeline.run_instrumented(module, around)
    write_output(arguments.output, contents(module, "proto" if arguments.proto else "text"))
    if arguments.time:
        print(timing_table(around.records), file=sys.stderr)
    return 0


def _known(
    arguments: argparse.Namespace,
) -> tuple[Mapping[str, HloModulePass], Sequence[ListedPass]]:
    """Passes by name, and those that a compilation for the platform runs, in its order."""
    if arguments.platform is None:
        return SDK_PASSES, ()
    options = given_options(arguments)
    target = current_registry().platform(arguments.platform).compile_target(options.target)
    return passes_of(target, options), listed_passes(target, options)


def _print_list(known: Mapping[str, HloModulePass], listed: Sequence[ListedPass]) -> None:
    inside = {p.found.name for p in listed}
    others = [("-", name, _summary(p)) for name, p in sorted(known.items()) if name not in inside]
    if not listed:
        print_table([("PASS", "WHAT IT DOES"), *(row[1:] for row in others)])
        return
    rows = [(p.within, p.found.name, _summary(p.found)) for p in listed]
    print_table([("PIPELINE", "PASS", "WHAT IT DOES"), *rows, *others])


def _summary(each: HloModulePass) -> str:
    return (each.__doc__ or "").strip().splitlines()[0]
