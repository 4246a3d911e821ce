"""`xladev`: finds the command, runs it, turns errors into messages and exit codes.

Exit codes: 0 success, 1 the command found a problem (a failed check, an unhealthy plugin),
2 an error or wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from xladev import __version__
from xladev.cli.output import one_document, printable_output
from xladev.errors import XladevError
from xladev.instrument import configure_logging

_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "run a program, check its results",
        "devices": "list the devices",
        "doctor": "say what is installed and what is wrong with it",
        "opt": "apply passes to a program and print it",
        "convert": "convert between serialized HloModuleProto and text, or from StableHLO",
        "calibrate": "measure what devices need for kinds of work, for placement",
        "cost": "count operations and bytes, and what they take at least",
        "explain": "say where instructions run, what became one kernel, what is copied",
        "graph": "draw a program, or two side by side",
        "diff": "say in what two programs differ",
        "isolate": "name what makes a program wrong on a platform",
        "bisect": "shrink a program that fails to a few instructions",
        "trace": "ask questions of a timeline, draw it, check it",
        "aot": "compile to an object file with a C header",
        "options": "list the compile options",
        "new": "write the project of a new backend",
        "certify": "run the conformance suite and issue a certificate",
    }
)
"""What each command does; its module has its name."""


_ALL = "all"


def build_parser(chosen: str | None = _ALL) -> argparse.ArgumentParser:
    """The parser of all commands.

    Args:
        chosen: the one command whose arguments are needed, or None for none: the modules of others
            stay unread.
    """
    parser = argparse.ArgumentParser(
        prog="xladev", description="Run and inspect HLO programs on any backend."
    )
    parser.add_argument("--version", action="version", version=f"xladev {__version__}")
    parser.add_argument("--log", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR")
    parser.add_argument("--traceback", action="store_true", help="show where an error was raised")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in _COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=description)
        if chosen in (_ALL, name):
            import_module(f"xladev.cli.{name}").add_arguments(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    with printable_output():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    # where the first word is no command (a value of an option, an error), that of all is read
    chosen = next((word for word in given if not word.startswith("-")), None)
    parser = build_parser(chosen if chosen is None or chosen in _COMMANDS else _ALL)
    parsed = parser.parse_args(given)
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return 2
    if not faulthandler.is_enabled():  # a driver that crashes is named by its Python lines
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            faulthandler.enable()
    try:
        configure_logging(parsed.log)
        with one_document(getattr(parsed, "json", False)):
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
