"""What `xladev bisect` and `xladev isolate` share: the suspect, and where cases are written."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from xladev.cli.inputs import add_inputs, add_options, given_options
from xladev.cli.programs import PROGRAM_HELP
from xladev.errors import UsageError
from xladev.hlo.ir import HloInstruction
from xladev.runtime.registry import current_registry
from xladev.testing.case_file import case_words, write_case
from xladev.testing.debug.suspect import Suspect
from xladev.testing.verdict import DEFINITION, UNKNOWN, Case, Verdict

WRONG = 1
RIGHT = 0


def add_suspect(parser: argparse.ArgumentParser) -> None:
    """The program, the platform under suspicion, and what it is held against."""
    parser.add_argument("file", type=Path, help=PROGRAM_HELP)
    parser.add_argument("--platform", help="platform under suspicion; default: the best one")
    parser.add_argument(
        "--against", metavar="PLATFORM", default=DEFINITION, help="the one that is right"
    )
    add_inputs(parser)
    add_options(parser)
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds that count as a hang"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="folder of the small program"
    )


def suspect_of(arguments: argparse.Namespace) -> Suspect:
    """The suspect that a command was given.

    Raises:
        UsageError: it is held against itself, or the time is none.
        DeviceError: no such platform.
    """
    if not arguments.timeout > 0:
        raise UsageError(f"--timeout is {arguments.timeout}", why="it is a number of seconds")
    platform = arguments.platform or current_registry().platform(None).name
    if platform == arguments.against:
        raise UsageError(
            f"{platform} is held against itself", hint="--against names the platform that is right"
        )
    current_registry().platform(platform), current_registry().platform(arguments.against)
    options = given_options(arguments)
    return Suspect(platform, arguments.against, options, arguments.timeout)


def report_no_failure(verdict: Verdict, suspect: Suspect) -> int:
    """Says that nothing is wrong, or that nobody knows what is right; the exit code."""
    if verdict.kind == UNKNOWN:
        print(f"{suspect.against} cannot run the program, so nobody knows what is right:")
        print(verdict.detail)
        return WRONG
    print(f"nothing is wrong: {suspect.platform} agrees with {suspect.against}")
    return RIGHT


def keep(case: Case, name: str, arguments: argparse.Namespace, suspect: Suspect) -> None:
    """Writes a case and prints the command that shows it again."""
    files = write_case(arguments.out, name, *case)
    words = case_words(files, suspect.platform, suspect.against, arguments.option)
    print(f"again: {shlex.join(words)}")


def named(instruction: HloInstruction) -> str:
    """Name, shape and opcode, with the operation and the source line that it came from."""
    metadata = instruction.note.metadata
    origin = ", ".join(filter(None, (metadata.op_name, metadata.location)))
    shape = instruction.shape.to_string(layout=False)
    return f"{instruction.name} = {shape} {instruction.opcode}" + (f" ({origin})" if origin else "")
