"""`xladev convert`: serialized HloModuleProto to text and back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xladev.client import load
from xladev.errors import FormatError
from xladev.hlo.proto import write_module
from xladev.hlo.text import print_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="HLO text or serialized HloModuleProto")
    parser.add_argument("--to", choices=("text", "proto"), help="default: the other form")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    module = load(arguments.file)
    wanted = arguments.to or ("proto" if arguments.file.suffix in (".hlo", ".txt") else "text")
    data = write_module(module) if wanted == "proto" else print_module(module).encode()
    if arguments.output is not None:
        write_file(arguments.output, data)
        print(f"{arguments.output}: {wanted}, {len(data)} bytes", file=sys.stderr)
    elif wanted == "proto" and sys.stdout.isatty():
        raise FormatError("a serialized proto is not for a terminal", hint="name a file with -o")
    else:
        sys.stdout.buffer.write(data)
    return 0


def write_file(path: Path, data: bytes) -> None:
    """Writes a whole file or nothing.

    Raises:
        FormatError: it cannot be written.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as e:
        temporary.unlink(missing_ok=True)
        raise FormatError(f"cannot write {path}", why=str(e)) from e
