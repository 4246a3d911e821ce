"""Differential test of a platform: random programs over the opset, failures made small.

    python -m xladev.testing.fuzz [--platform cpu] [--against interpreter] [--xla PYTHON]
        [--programs N] [--seed S] [--minutes M] [--jobs J] [--out DIR]

Programs run in child processes, so that a crash or a hang is a failure like any other. Every new
kind of failure is made small, and written as HLO text and arrays, with the `xladev run` that shows
it. With ``--xla``, the results of XLA's CPU backend, in a Python that has jaxlib, are compared with
the reference too.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from xladev.testing.campaign import Campaign
from xladev.testing.fuzz_task import Task
from xladev.testing.recipes.table import RECIPES
from xladev.testing.verdict import DEFINITION

_PROGRESS_S = 30.0
_PROGRESS_ON_TERMINAL_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a campaign; 1 if a program failed."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    opcodes = tuple(chosen.opcodes.split(",")) if chosen.opcodes else ()
    unknown = set(opcodes) - set(RECIPES)
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)}; there are {', '.join(sorted(RECIPES))}")
    task = Task(
        platform=chosen.platform,
        against=chosen.against,
        xla=chosen.xla,
        level=chosen.level,
        steps=chosen.steps,
        opcodes=opcodes,
    )
    campaign = Campaign(task, chosen.out, chosen.reduce_seconds, report=_say)
    deadline = time.monotonic() + 60 * chosen.minutes
    with _Progress(campaign, chosen.programs):
        campaign.run(chosen.seed, chosen.programs, jobs=chosen.jobs, deadline=deadline)
    _say(campaign.summary())
    return 1 if campaign.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xladev.testing.fuzz",
        description="differential test of a platform by random programs",
    )
    add = parser.add_argument
    add("--platform", default="cpu", help="what is tested (default: cpu)")
    add("--against", default=DEFINITION, metavar="PLATFORM", help="default: interpreter")
    add("--xla", default="", metavar="PYTHON", help="a Python with jaxlib: compare XLA's CPU too")
    add("--programs", type=int, default=1000, metavar="N", help="default: 1000")
    add("--seed", type=int, default=0, metavar="S", help="of the first program (default: 0)")
    add("--minutes", type=float, default=float("inf"), metavar="M", help="stop after so long")
    add("--jobs", type=int, default=1, metavar="J", help="child processes (default: 1)")
    add("--out", type=Path, default=Path(".cache/fuzz"), metavar="DIR", help="small programs")
    add("--opcodes", default="", help="draw these alone, separated by commas")
    add("--steps", type=int, help="opcodes per program (default: drawn)")
    add("--level", type=int, help="optimization level (default: drawn)")
    add("--reduce-seconds", type=float, default=60.0, help="per failure (default: 60)")
    return parser


class _Progress:
    """A line on standard error now and then: rewritten on a terminal, else appended."""

    def __init__(self, campaign: Campaign, wanted: int) -> None:
        self._campaign, self._wanted = campaign, wanted
        self._start = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._print("\n")

    def _run(self) -> None:
        terminal = sys.stderr.isatty()
        while not self._done.wait(_PROGRESS_ON_TERMINAL_S if terminal else _PROGRESS_S):
            self._print("" if terminal else "\n")

    def _print(self, end: str) -> None:
        ran, seconds = self._campaign.programs, time.monotonic() - self._start
        start = "\r" if sys.stderr.isatty() else ""
        line = f"{ran} of {self._wanted} programs, {ran / max(seconds, 1e-3):.0f}/s, "
        line += f"{len(self._campaign.failures)} kinds of failure, {seconds:.0f} s"
        print(start + line, end=end, file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
