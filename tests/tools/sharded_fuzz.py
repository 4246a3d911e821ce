"""Many random programs, cut at random, partitioned and held to the whole program.

    python -m tests.tools.sharded_fuzz --first 100000 --count 1000
    python -m tests.tools.sharded_fuzz --first 100017 --count 1      one seed again

Padding holds NaN and the largest integers. Every other seed is a program of one opcode, for these
leave the partitioner most to decide. Seeds run in child processes; a program that takes longer than
``LIMIT_S`` is counted as slow. Prints a line for each that differs, and counts at the end. The exit
status is 1 if there was one.
"""

import argparse
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable

from tests.unit.passes.spmd.sharded_programs import annotated, check, drawn_program
from xladev.testing.recipes.table import RECIPES

BATCH = 250
COUNTS = (8, 4, 6, 2)
LIMIT_S = 20
"""Seconds of one program."""


class _Slow(Exception):
    """A program took longer than the limit."""


def _ring(*_: object) -> None:
    raise _Slow


def compared(seed: int, opcodes: tuple[str, ...]) -> bool:
    """Whether the program of a seed was one for the partitioner.

    Raises:
        AssertionError: its parts differ from the whole.
    """
    only = (opcodes[seed // 2 % len(opcodes)],) if seed % 2 else ()
    drawn = drawn_program(seed, only, 1 if only else None)
    if drawn is None:
        return False
    module, arguments = drawn
    count = COUNTS[seed // 2 % 4]
    check(annotated(module, seed, count, 0.85 if only else 0.6), arguments, count)
    return True


def run(seeds: Iterable[int]) -> tuple[Counter[str], list[str]]:
    """How the programs of some seeds ended, by kind, and a text for each that failed."""
    kinds: Counter[str] = Counter()
    failed: list[str] = []
    opcodes = tuple(sorted(RECIPES))
    signal.signal(signal.SIGALRM, _ring)
    for seed in seeds:
        signal.alarm(LIMIT_S)
        try:
            kinds["equal" if compared(seed, opcodes) else "not for the partitioner"] += 1
        except _Slow:
            kinds["slow"] += 1
            failed.append(f"{seed}: more than {LIMIT_S} s")
        except Exception as error:  # noqa: BLE001 - every failure is counted
            kinds["different"] += 1
            at = traceback.extract_tb(error.__traceback__)[-1]
            failed.append(f"{seed}: {type(error).__name__} at {at.name}: {str(error)[:400]}")
        finally:
            signal.alarm(0)
    return kinds, failed


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    given = parser.parse_args()
    kinds: Counter[str] = Counter()
    began = time.monotonic()
    end = given.first + given.count
    batches = [range(a, min(a + BATCH, end)) for a in range(given.first, end, BATCH)]
    context = multiprocessing.get_context("fork")
    with context.Pool(1, maxtasksperchild=4) as pool:
        for found, failed in pool.imap(run, batches):
            kinds += found
            for line in failed:
                print(line, flush=True)
            rest = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
            print(f"{sum(kinds.values())} in {time.monotonic() - began:.0f} s: {rest}", flush=True)
    return int(bool(kinds["different"]))


if __name__ == "__main__":
    sys.exit(main())
