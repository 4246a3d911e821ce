"""`xladev diff`: says in what two programs differ, in structure and in numbers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from xladev.cli.inputs import add_inputs, given_inputs
from xladev.cli.output import progress
from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.errors import ArgumentError, counted, printable_name
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text.printer import PrintOptions, print_instruction
from xladev.profiling.structure import ComputationDifference, differences
from xladev.testing.differential import compare_results, run_on_platform
from xladev.testing.verdict import DEFINITION

_SHORT = PrintOptions(layouts=False, metadata=False, backend_config=False, large_constants=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("first", type=Path, help=PROGRAM_HELP)
    parser.add_argument("second", type=Path, help="another program")
    parser.add_argument("--numbers", action="store_true", help="run both, compare their results")
    parser.add_argument(
        "--platform", default=DEFINITION, help=f"that runs both; default: {DEFINITION}"
    )
    add_inputs(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    first, second = load_program(arguments.first), load_program(arguments.second)
    found = differences(first, second)
    for difference in found:
        print("\n".join(_lines(difference)))
    if not found:
        print("structure: the same")
    problem = _numbers(first, second, arguments) if arguments.numbers else ""
    return 1 if found or problem else 0


def _lines(difference: ComputationDifference) -> Iterator[str]:
    """As `diff` has them: ``-`` of the first program, ``+`` of the second."""
    a, b = difference.first, difference.second
    name = printable_name(a.name if a.name == b.name else f"{a.name} and {b.name}")
    yield (
        f"{name}: {counted(difference.same, 'instruction')} the same, "
        f"{difference.fed} different only in what feeds them, "
        f"{len(difference.removed)} removed, {len(difference.added)} added, "
        f"{len(difference.rewired)} with other operands"
    )
    yield from (f"- {_line(i)}" for i in difference.removed)
    yield from (f"+ {_line(i)}" for i in difference.added)
    for one, two in difference.rewired:
        yield f"- {_line(one)}"
        yield f"+ {_line(two)}"


def _line(instruction: HloInstruction) -> str:
    return print_instruction(instruction, _SHORT)


def _numbers(first: HloModule, second: HloModule, arguments: argparse.Namespace) -> str:
    """What differs in results; prints it."""
    shapes = [[p.shape for p in m.entry.parameters] for m in (first, second)]
    pairs = list(zip(*shapes, strict=False))
    if len(shapes[0]) != len(shapes[1]) or not all(a.equal_ignoring_layout(b) for a, b in pairs):
        raise ArgumentError(
            "the programs take other arguments",
            why=f"{', '.join(map(str, shapes[0]))}; {', '.join(map(str, shapes[1]))}",
            hint="without --numbers, their structure alone is compared",
        )
    inputs = given_inputs(first, arguments)
    with progress("running both"):
        wanted, found = (run_on_platform(m, inputs, arguments.platform) for m in (first, second))
        finding = compare_results(first, inputs, found, wanted)
    print(f"numbers on {arguments.platform}: " + ("the same" if finding is None else str(finding)))
    return "" if finding is None else str(finding)
