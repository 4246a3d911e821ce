"""What commands print: tables, JSON, progress."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, cast

from xladev.errors import UsageError, printable, printable_name


def check_least(option: str, value: float, least: int) -> None:
    """Refuses a number that is too small, or none.

    Raises:
        UsageError: it is less than ``least``, or nan.
    """
    if not value >= least:
        raise UsageError(f"{option} is {value}", why=f"it is a number from {least} on")


class PrintableStream:
    """A stream of text to which nothing is written that could drive a terminal.

    What it has besides ``write`` is that of the stream within. A character that the stream cannot
    encode becomes its escape.
    """

    def __init__(self, stream: TextIO) -> None:
        self.within = stream

    def write(self, text: str) -> int:
        """Writes the text, made printable."""
        shown = printable(text)
        try:
            self.within.write(shown)
        except UnicodeEncodeError as error:
            plain = shown.encode(error.encoding, "backslashreplace")
            self.within.write(plain.decode(error.encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each, made printable."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Makes printable what the block writes to standard output and standard error."""
    before = sys.stdout, sys.stderr
    if sys.stdout is not None:
        sys.stdout = cast(TextIO, PrintableStream(sys.stdout))
    if sys.stderr is not None:
        sys.stderr = cast(TextIO, PrintableStream(sys.stderr))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def one_document(wanted: bool) -> Iterator[None]:
    """Keeps standard output for what `print_json` writes, if that is wanted.

    Plugins print when they are imported or opened, and so do their drivers' C libraries: that goes
    to standard error until the block ends.
    """
    if not wanted or sys.stdout is None:
        yield
        return
    global _documents
    _documents, out, documents = [], sys.stdout, _documents
    out.flush()
    restore = _divert_descriptor()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        restore()
        written, _documents = _documents, documents
        out.write("".join(written or ()))


_documents: list[str] | None = None
_descriptor: int | None = None


def document_descriptor() -> int | None:
    """Where a process that this command starts should write; None: its standard output.

    It is what standard output was before `one_document` kept it for this process.
    """
    return _descriptor


def _divert_descriptor() -> Callable[[], None]:
    """Makes descriptor 1 standard error's, for C libraries; gives what takes it back."""
    global _descriptor
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # closed
        return lambda: None
    before, _descriptor = _descriptor, kept

    def restore() -> None:
        global _descriptor
        _descriptor = before
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # C keeps lines back where it writes to no terminal
        os.dup2(kept, 1)
        os.close(kept)

    return restore


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    text = json.dumps(data, indent=2, sort_keys=True, default=str)
    if _documents is None:
        print(text)
    else:
        _documents.append(f"{text}\n")


def print_line(text: str) -> None:
    """One line, whatever the names in it hold."""
    print(printable_name(text))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Left-aligned columns; the first row is the heading. A cell is one line."""
    shown = [[printable_name(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def indented(text: str) -> str:
    """The text with its lines, but for the first, set in."""
    return text.strip().replace("\n", "\n  ")


_doing: list[str] = []
"""What is going on, the innermost last; shown on a terminal."""


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Says on a terminal what takes more than a second, and for how long; erased afterwards.

    Within another one it takes its place as long as it lasts.
    """
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    within = stream.within if isinstance(stream, PrintableStream) else stream
    done = threading.Event()
    ticker = threading.Thread(target=_tick, args=(within, done), daemon=True)
    _doing.append(printable(what))
    if len(_doing) == 1:
        ticker.start()
    try:
        yield
    finally:
        _doing.pop()
        if not _doing:
            done.set()
            ticker.join()


def _tick(stream: TextIO, done: threading.Event) -> None:
    """Writes one line over itself, and takes it away at the end."""
    start = time.monotonic()
    shown = False
    while not done.wait(1.0):
        seconds = time.monotonic() - start
        for what in _doing[-1:]:
            shown = True
            print(f"\r\033[K{what}: {seconds:.0f} s", end="", file=stream, flush=True)
    if shown:
        print("\r\033[K", end="", file=stream, flush=True)
