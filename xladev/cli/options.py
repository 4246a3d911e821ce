"""`xladev options`: every compile option, of platforms too, its value and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from xladev.cli.output import print_json, print_table
from xladev.compiler.options import OPTION_DOCS, CompileOptions
from xladev.runtime.plugins.platform_options import declared_options
from xladev.runtime.registry import current_registry

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    current = CompileOptions.from_environment()
    rows = [*_general(current), *_of_platforms(current)]
    if arguments.json:
        print_json(rows)
        return 0
    table = [("OPTION", "VALUE", "MEANING")]
    table += [(r["option"], _spelled(r["value"]), r["doc"]) for r in rows]
    print_table(table)
    print("set by --option KEY=VALUE, or for all programs by XLADEV_FLAGS")
    return 0


def _general(current: CompileOptions) -> Iterator[Row]:
    defaults = CompileOptions()
    for name, doc in OPTION_DOCS.items():
        yield _row(name, getattr(defaults, name), getattr(current, name), doc)


def _of_platforms(current: CompileOptions) -> Iterator[Row]:
    given = dict(current.extras)
    for name, option in declared_options(current_registry().platforms()).items():
        yield _row(name, option.default, given.get(name, option.default), option.doc)


def _row(name: str, default: Any, value: Any, doc: str) -> Row:
    return {"option": name, "default": default, "value": value, "doc": doc}


def _spelled(value: Any) -> str:
    """A value as it is written after `--option`."""
    if value in (None, "", ()):
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)
