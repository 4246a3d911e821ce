"""What commands print: tables, JSON, progress."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xladev.errors import UsageError


def check_least(option: str, value: float, least: int) -> None:
    """Refuses a number that is too small, or none.

    Raises:
        UsageError: it is less than ``least``, or nan.
    """
    if not value >= least:
        raise UsageError(f"{option} is {value}", why=f"it is a number from {least} on")


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(data, indent=2, sort_keys=True, default=str))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Left-aligned columns; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def indented(text: str) -> str:
    """The text with its lines, but for the first, set in."""
    return text.strip().replace("\n", "\n  ")


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Says on a terminal what takes more than a second, and for how long."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    ticker = threading.Thread(target=_tick, args=(what, done), daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()


def _tick(what: str, done: threading.Event) -> None:
    start = time.monotonic()
    shown = False
    while not done.wait(1.0):
        shown = True
        print(f"\r{what}: {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
