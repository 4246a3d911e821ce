"""The arguments that a command gives to a program: of a file, or random ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xladev.cli.output import check_least
from xladev.compiler.options import CompileOptions
from xladev.errors import ArgumentError
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape
from xladev.testing.arrays import read_arrays
from xladev.testing.random_inputs import random_arguments


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The options ``--inputs`` and ``--seed``."""
    parser.add_argument("--inputs", type=Path, help="npz with in_*; default: random numbers")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The option ``--option``."""
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="see `xladev options`"
    )


def given_options(arguments: argparse.Namespace) -> CompileOptions:
    """Compile options of the environment, changed by ``--option``.

    Raises:
        OptionError: an unknown key or a value of wrong type.
    """
    return CompileOptions.from_environment().with_options(arguments.option)


def given_inputs(
    module: HloModule,
    arguments: argparse.Namespace,
    shapes: Sequence[Shape] | None = None,
    other: Path | None = None,
) -> list[Any]:
    """One value per parameter.

    Args:
        module: the program.
        arguments: of the command.
        shapes: of the parameters; default: those of the module.
        other: a file that may have arguments too, where ``--inputs`` names none.

    Raises:
        ArgumentError: the file of ``--inputs`` has no arguments, or others.
    """
    check_least("--seed", arguments.seed, 0)
    if shapes is None:
        shapes = [p.shape for p in module.entry.parameters]
    path = arguments.inputs or other
    if path is None or not shapes:
        return random_arguments(module, arguments.seed)
    found = read_arrays(path, "in_", shapes)
    if found is None and arguments.inputs is None:
        return random_arguments(module, arguments.seed)
    if found is None:
        raise ArgumentError(
            f"{path} has no arrays called in_*",
            where=str(path),
            hint="arrays are called in_0000, in_0001, ...; without --inputs, random ones are used",
        )
    return found
