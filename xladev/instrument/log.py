"""The loggers of xladev: their names and what each one says."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from xladev.errors import OptionError, printable, set_in

LOGGERS: Mapping[str, str] = {
    "xladev.compile": "one INFO line per compilation, and per program that a framework hands over",
    "xladev.dump": "one INFO line per file written",
    "xladev.placement": "where each instruction runs, after `set_log_device_placement(True)`",
    "xladev.runtime": "failures that nobody read, memory that a plugin did not take back",
    "xladev.profile": "timelines that lack something, or are lost",
    "xladev.tuning": "kernels that were timed, and those computed in another way than by default",
    "xladev.torch": "operators of PyTorch programs that torch itself runs, and why",
    "xladev.plugin": "plugins and platforms that are left out, and why",
}
"""What is logged where."""

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def logger(area: str) -> logging.Logger:
    """The logger ``xladev.<area>``, one of `LOGGERS`; what it says is printable everywhere."""
    found = logging.getLogger(f"xladev.{area}")
    found.addFilter(_make_printable)
    return found


def _make_printable(record: logging.LogRecord) -> bool:
    """Escapes what would drive a terminal, before any handler sees it; one record, one margin."""
    said = record.getMessage()
    shown = set_in(printable(said), 2)
    if shown != said:
        record.msg, record.args = shown, ()
    return True


def configure_logging(level: str | None = None) -> None:
    """Shows xladev's log on stderr from ``level`` on, as the command line does.

    Args:
        level: DEBUG, INFO, WARNING or ERROR; None means `XLADEV_LOG`, or WARNING.

    Raises:
        OptionError: another level.
    """
    wanted = (level or os.environ.get("XLADEV_LOG") or "WARNING").upper()
    if wanted not in _LEVELS:
        raise OptionError(f"unknown log level {wanted!r}", hint=f"one of {', '.join(_LEVELS)}")
    root = logging.getLogger("xladev")
    root.setLevel(wanted)
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname).1s %(name)s: %(message)s"))
        root.addHandler(handler)
        root.propagate = False
