"""All 2**32 inputs of functions of f32, on any platform: by hand, for it takes hours.

    python -m xladev.testing.exhaustive [--platform cpu] [--functions tanh,convert-bf16]
        [--minutes M] [--folder DIR]

A run goes on where it stopped; what other code gave does not count. The conformance suite has the
same functions in strides, and all inputs of narrower types.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from xladev.errors import XladevError
from xladev.testing.conformance.judge import SERVE
from xladev.testing.every_f32 import BLOCKS, Block, Function, functions, run_blocks, summary
from xladev.testing.worker import Worker

_BLOCK_S = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs functions; 1 if a result is wrong, 2 if time is up before all blocks are done."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    table = {f.name: f for f in functions()}
    names = chosen.functions.split(",") if chosen.functions else list(table)
    unknown = set(names) - set(table)
    if unknown:
        parser.error(f"no function {', '.join(unknown)}; there are {', '.join(table)}")
    deadline = time.monotonic() + 60 * chosen.minutes
    outcomes = []
    with Worker(SERVE, timeout_s=_BLOCK_S) as worker:
        for name in names:
            outcome = _run(table[name], chosen.platform, worker, chosen.folder, deadline)
            outcomes.append(outcome)
    return max(outcomes, key=(0, 2, 1).index)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xladev.testing.exhaustive",
        description="all inputs of functions of f32, against the evaluator",
    )
    add = parser.add_argument
    add("--platform", default="cpu", help="what is tested (default: cpu)")
    add("--functions", default="", help="these alone, separated by commas")
    add("--minutes", type=float, default=float("inf"), metavar="M", help="stop after so long")
    add("--folder", type=Path, default=Path(".cache/exhaustive"), metavar="DIR", help="progress")
    return parser


def _run(function: Function, platform: str, worker: Worker, folder: Path, deadline: float) -> int:
    blocks: list[Block] = []
    start = time.monotonic()
    if start > deadline:
        return 2
    try:
        for block, old in run_blocks(function, platform, worker, folder):
            blocks.append(block)
            if not old and time.monotonic() > deadline and len(blocks) < BLOCKS:
                print(f"{function.name}: {len(blocks)} of {BLOCKS} blocks; run again to go on")
                return 2
    except XladevError as error:
        print(f"{function.name}: {error}", flush=True)
        return 1
    print(f"{summary(function, blocks)}, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if any(b.bad for b in blocks) else 0


if __name__ == "__main__":
    sys.exit(main())
