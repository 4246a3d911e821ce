"""Keeps the pages of a folder of dumps up to date while programs are compiled."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from xladev.compiler.cache.whole_file import write_whole
from xladev.errors import XladevError
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.instrument import logger
from xladev.instrument.dump import DumpedFile, DumpGroup
from xladev.profiling.dumps.changes import change_page
from xladev.profiling.dumps.index import index_page
from xladev.profiling.dumps.records import Record, add_record, locked, now, read_records
from xladev.profiling.graph.html import html_page
from xladev.profiling.graph.marks import difference_marks
from xladev.profiling.graph.model import Colouring, graph_data

INDEX = "index.html"
MOST_DRAWN = 1500
"""Instructions of a program above which no graphs are drawn unasked: they take seconds each."""
_PAUSE_S = 0.3
"""Least time between two versions of the index, while a compilation goes on."""

_log = logger("dump")
_lock = threading.Lock()
_written: dict[Path, float] = {}
_before: dict[tuple[Path, int, str], DumpedFile] = {}
_CHANGE = (".before_", ".after_")


def add_file(file: DumpedFile) -> None:
    """Takes note of a file, makes pages of a pass that is through, and the index now and then.

    Raises:
        OSError: the folder cannot be written.
        XladevError: a page cannot be written.
    """
    if file.is_last:
        write_index(file.path)
        return
    folder = file.path.parent
    add_record(folder, _record(file.path, file.name, file.suffix, file.group))
    if _is_of_a_pass(file, 0):
        _before[folder, file.group.number, file.name.partition(_CHANGE[0])[2]] = file
    elif _is_of_a_pass(file, 1):
        name = file.name.partition(_CHANGE[1])[2]
        before = _before.pop((folder, file.group.number, name), None)
        if before is not None:
            _add_change(before, file, name)
    if time.monotonic() - _written.get(folder, 0.0) > _PAUSE_S:
        write_index(folder)


def write_index(folder: Path) -> None:
    """Writes the index of a folder from what is there now.

    Raises:
        OSError: the folder cannot be written.
        FileError: the index cannot be written; an older one is left.
    """
    with _lock, locked(folder):
        page = index_page(read_records(folder), folder.name or str(folder))
        write_whole(folder / INDEX, page.encode("utf-8", "replace"))
        _written[folder] = time.monotonic()


def _record(path: Path, name: str, suffix: str, group: DumpGroup, note: str = "") -> Record:
    return Record(
        path.name, name, suffix, os.getpid(), group.number, group.title, group.platform,
        path.stat().st_size, now(), note,
    )  # fmt: skip


def _is_of_a_pass(file: DumpedFile, which: int) -> bool:
    return file.suffix == "hlo" and _CHANGE[which] in file.name


def _add_change(before: DumpedFile, after: DumpedFile, name: str) -> None:
    """The page of what a pass changed, in text and as graphs."""
    texts = [f.path.read_text("utf-8", errors="replace") for f in (before, after)]
    title = f"{after.group.title}: {name}"
    _add_page(before, f"change_{name}", change_page(texts[0], texts[1], title))
    drawn = _drawn(texts, title, name)
    if drawn is not None:
        _add_page(before, f"graph_{name}", drawn)


def _add_page(before: DumpedFile, kind: str, page: str) -> None:
    number, _, rest = before.path.name.partition(".")
    name = f"{number}.{rest.partition(_CHANGE[0])[0]}.{kind}.html"
    path = before.path.with_name(name.replace("/", "_"))
    write_whole(path, page.encode("utf-8", "replace"))
    add_record(path.parent, _record(path, before.name, f"{kind}.html", before.group))


def _drawn(texts: list[str], title: str, name: str) -> str | None:
    """Both graphs side by side; None for large programs, and for what cannot be read again."""
    try:
        first, second = map(parse_module, texts)
    except XladevError as error:
        _log.debug("%s is not drawn: %s", title, error)
        return None
    if max(first.instruction_count, second.instruction_count) > MOST_DRAWN:
        return None
    marks = difference_marks(first, second)
    shown = [
        _data(module, marks) | {"title": f"{when} {name}"}
        for when, module in (("before", first), ("after", second))
    ]
    return html_page(shown, title)


def _data(module: HloModule, marks: dict[HloInstruction, str]) -> dict[str, object]:
    return graph_data(module, Colouring(marks=marks))
