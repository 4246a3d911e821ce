"""`xladev`: finds the command, runs it, turns errors into messages and exit codes.

Exit codes: 0 success, 1 the command found a problem (a failed check, an unhealthy plugin),
2 an error or wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev import __version__
from xladev.cli import (
    bisect,
    certify,
    convert,
    cost,
    devices,
    diff,
    doctor,
    explain,
    graph,
    isolate,
    new,
    opt,
    options,
    run,
)
from xladev.errors import XladevError
from xladev.instrument import configure_logging

_COMMANDS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = MappingProxyType(
    {
        "run": ("run a program, check its results", run.add_arguments),
        "devices": ("list the devices", devices.add_arguments),
        "doctor": ("say what is installed and what is wrong with it", doctor.add_arguments),
        "opt": ("apply passes to a program and print it", opt.add_arguments),
        "convert": ("convert between serialized HloModuleProto and text", convert.add_arguments),
        "cost": ("count operations and bytes, and what they take at least", cost.add_arguments),
        "explain": ("say what became one kernel, and why the rest did not", explain.add_arguments),
        "graph": ("draw a program, or two side by side", graph.add_arguments),
        "diff": ("say in what two programs differ", diff.add_arguments),
        "isolate": ("name what makes a program wrong on a platform", isolate.add_arguments),
        "bisect": ("shrink a program that fails to a few instructions", bisect.add_arguments),
        "options": ("list the compile options", options.add_arguments),
        "new": ("write the project of a new backend", new.add_arguments),
        "certify": ("run the conformance suite and issue a certificate", certify.add_arguments),
    }
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="xladev", description="Run and inspect HLO programs on any backend."
    )
    parser.add_argument("--version", action="version", version=f"xladev {__version__}")
    parser.add_argument("--log", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR")
    parser.add_argument("--traceback", action="store_true", help="show where an error was raised")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (summary, add) in _COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        add(commands.add_parser(name, help=summary, description=description))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return 2
    if not faulthandler.is_enabled():  # a driver that crashes is named by its Python lines
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            faulthandler.enable()
    try:
        configure_logging(parsed.log)
        code: int = parsed.run(parsed)
        print(end="", flush=True)  # or what cannot be written is an error only at exit
        return code
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (XladevError, OSError) as error:
        if parsed.traceback:
            raise
        print(f"xladev: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
