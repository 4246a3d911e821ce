"""`xladev trace`: asks questions of a timeline, checks it, or draws it."""

from __future__ import annotations

import argparse
import html
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xladev.cli.convert import write_output
from xladev.cli.output import check_least, print_json, print_table
from xladev.errors import UsageError, counted, printable
from xladev.profiling.graph.svg import svg_to_png
from xladev.profiling.timeline.check import check_trace
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.picture import timeline_picture
from xladev.profiling.timeline.questions import QUESTIONS
from xladev.profiling.timeline.tables import ask, open_tables

_ROWS = 10
_WIDTH = 1000
_LEAST_WIDTH = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    query = actions.add_parser(
        "query",
        help="answer a question",
        description="Answer questions: ready ones, or one in SQL.",
    )
    query.add_argument("file", type=Path, help="a trace; .gz is fine")
    query.add_argument("sql", nargs="?", help="a question in SQL; see docs/reference/timeline.md")
    for name, question in QUESTIONS.items():
        query.add_argument(f"--{name}", action="store_true", help=question.summary)
    query.add_argument(
        "--rows", type=int, default=_ROWS, metavar="N", help="of each ready question"
    )
    query.add_argument("--json", action="store_true", help="one JSON document")
    query.set_defaults(run=_query)
    draw = actions.add_parser(
        "draw",
        help="draw it as SVG, HTML or PNG",
        description="Draw it as SVG, HTML or PNG, from its rows on devices.",
    )
    draw.add_argument("file", type=Path, help="a trace; .gz is fine")
    draw.add_argument("-o", "--output", type=Path, help="its ending says which; default: FILE.svg")
    draw.add_argument("--width", type=int, default=_WIDTH, metavar="N", help="pixels")
    draw.add_argument("--begin", type=float, metavar="US", help="first moment, in microseconds")
    draw.add_argument("--end", type=float, metavar="US", help="last moment")
    draw.set_defaults(run=_draw)
    check = actions.add_parser(
        "check",
        help="check that it is whole",
        description="Check that a trace is whole: fields, names, nesting and arrows.",
    )
    check.add_argument("file", type=Path, help="a trace; .gz is fine")
    check.set_defaults(run=_check)


def _query(arguments: argparse.Namespace) -> int:
    check_least("--rows", arguments.rows, 1)
    ready = [name for name in QUESTIONS if getattr(arguments, name)]
    if not ready and arguments.sql is None:
        names = ", ".join(f"--{name}" for name in QUESTIONS)
        raise UsageError("there is no question", hint=f"give SQL, or one of {names}")
    database = open_tables(read_trace(arguments.file))
    sqls = {name: QUESTIONS[name].sql.replace(":limit", str(arguments.rows)) for name in ready}
    if arguments.sql is not None:
        sqls["query"] = arguments.sql
    answers = {name: ask(database, sql) for name, sql in sqls.items()}
    if arguments.json:
        print_json({name: _objects(*answer) for name, answer in answers.items()})
        return 0
    for name, (columns, rows) in answers.items():
        if len(answers) > 1:
            print(f"{name}:")
        print_table([[c.upper() for c in columns], *([_cell(v) for v in row] for row in rows)])
    return 0


def _objects(columns: list[str], rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _draw(arguments: argparse.Namespace) -> int:
    check_least("--width", arguments.width, _LEAST_WIDTH)
    if (arguments.begin is None) != (arguments.end is None):
        raise UsageError("one of --begin and --end is missing", hint="give both, or neither")
    if arguments.output is not None and arguments.output.suffix not in _PICTURES:
        raise UsageError(
            f"{arguments.output} says no kind of picture",
            why=f"a timeline is drawn as {', '.join(_PICTURES)}",
        )
    document = read_trace(arguments.file)
    span = None if arguments.begin is None else (arguments.begin, arguments.end)
    output = arguments.output or Path(f"{arguments.file.name}.svg")
    data = _PICTURES[output.suffix](timeline_picture(document, arguments.width, span), output.stem)
    write_output(output, data)
    print(f"{output}: {len(data):,} bytes")
    return 0


def _svg(picture: str, _title: str) -> bytes:
    return picture.encode()


def _html(picture: str, title: str) -> bytes:
    """A page that shows the picture by itself; what slices are stands in their tooltips."""
    shown = html.escape(printable(title))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{shown}</title>'
        f'</head>\n<body style="margin:12px">\n{picture}\n</body></html>\n'
    ).encode()


def _png(picture: str, _title: str) -> bytes:
    return svg_to_png(picture)


_PICTURES: Mapping[str, Callable[[str, str], bytes]] = MappingProxyType(
    {".svg": _svg, ".html": _html, ".png": _png}
)
"""How a picture is written, by the ending of its file."""


def _check(arguments: argparse.Namespace) -> int:
    document = read_trace(arguments.file)
    faults = check_trace(document)
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{arguments.file}: {counted(len(document['traceEvents']), 'event')}, nothing wrong")
    return 1 if faults else 0
