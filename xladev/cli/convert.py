"""`xladev convert`: serialized HloModuleProto to text and back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xladev.client import load
from xladev.compiler.whole_file import write_whole
from xladev.errors import UsageError
from xladev.hlo.ir import HloModule
from xladev.hlo.load import is_text, read_file
from xladev.hlo.proto import write_module
from xladev.hlo.text import print_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="HLO text or serialized HloModuleProto")
    parser.add_argument("--to", choices=("text", "proto"), help="default: the other form")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    source = read_file(arguments.file)
    wanted = arguments.to or ("proto" if is_text(source) else "text")
    data = contents(load(source), wanted)
    write_output(arguments.output, data)
    if arguments.output is not None:
        print(f"{arguments.output}: {wanted}, {len(data)} bytes", file=sys.stderr)
    return 0


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
