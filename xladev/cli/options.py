"""`xladev options`: every compile option, its default and what it does."""

from __future__ import annotations

import argparse

from xladev.cli.output import print_json, print_table
from xladev.compiler.options import OPTION_DOCS, CompileOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    defaults, current = CompileOptions(), CompileOptions.from_environment()
    rows = [
        {
            "option": name,
            "default": getattr(defaults, name),
            "value": getattr(current, name),
            "doc": doc,
        }
        for name, doc in OPTION_DOCS.items()
    ]
    if arguments.json:
        print_json(rows)
        return 0
    table = [("OPTION", "VALUE", "MEANING")]
    table += [(str(r["option"]), str(r["value"]), str(r["doc"])) for r in rows]
    print_table(table)
    print("set by --option KEY=VALUE, or for all programs by XLADEV_FLAGS")
    return 0
