"""`xladev convert`: serialized HloModuleProto to text and back, and StableHLO to either."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.compiler.cache.whole_file import write_whole
from xladev.errors import UsageError
from xladev.hlo.foreign import foreign_format
from xladev.hlo.ir import HloModule
from xladev.hlo.load import is_text, read_file
from xladev.hlo.proto import write_module
from xladev.hlo.text import print_module

_FORMS: Mapping[str, str] = MappingProxyType({".pb": "proto", ".hlo": "text", ".txt": "text"})
"""What names of files say of their form."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help=PROGRAM_HELP)
    parser.add_argument(
        "--to", choices=("text", "proto"), help="default: by the output, or the other form"
    )
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module = load_program(arguments.file)
    data = contents(module, wanted := arguments.to or _form(arguments))
    write_output(arguments.output, data)
    if arguments.output is not None:
        print(f"{arguments.output}: {wanted}, {len(data)} bytes", file=sys.stderr)
    return 0


def _form(arguments: argparse.Namespace) -> str:
    """The form that the name of the output says, or else the other one."""
    if arguments.output is not None and arguments.output.suffix in _FORMS:
        return _FORMS[arguments.output.suffix]
    source = read_file(arguments.file)
    return "proto" if is_text(source) and foreign_format(source) is None else "text"


def contents(module: HloModule, form: str) -> bytes:
    """A module as ``text`` or as ``proto``."""
    return write_module(module) if form == "proto" else print_module(module).encode()


def write_output(path: Path | None, data: bytes) -> None:
    """Writes to a file, or without one to standard output.

    Raises:
        FileError: the file cannot be written.
        UsageError: a proto would go to a terminal.
    """
    if path is not None:
        write_whole(path, data)
    elif sys.stdout.isatty() and not is_text(data):
        raise UsageError(
            "a serialized proto is not for a terminal",
            why="its bytes are no text",
            hint="name a file with -o",
        )
    else:
        sys.stdout.buffer.write(data)
