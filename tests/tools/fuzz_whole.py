"""Fuzzes the whole path by hand: damaged programs are loaded, verified, compiled and run.

    python -m tests.tools.fuzz_whole --minutes 60 [--seed N] [--start N] [--keep FOLDER]

Prints how the mutants ended, and every new kind of finding as it comes; 1 if there was any.
A finding is made again by its number: `--seed S --start N --count 1`.
"""

import argparse
import random
import sys
import time
from pathlib import Path

from tests.conftest import CASES_ZIP, PROGRAMS, unzipped
from tests.fuzz.campaign import Tally, campaign, whole_path_worker
from tests.fuzz.seeds import find_seeds


def main() -> int:
    """Runs one campaign."""
    parser = argparse.ArgumentParser(description="fuzz the whole path")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--count", type=int, default=None, help="stop after so many mutants")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--keep", type=Path, default=Path(".cache/fuzz-whole"))
    options = parser.parse_args()
    seeds = find_seeds(
        PROGRAMS if PROGRAMS.is_dir() else None,
        unzipped(CASES_ZIP) if CASES_ZIP.is_file() else None,
    )
    print(f"seed {options.seed}; findings go to {options.keep}", flush=True)
    deadline = time.monotonic() + 60 * options.minutes
    known: set[str] = set()
    tally = Tally()
    with whole_path_worker() as worker:
        for tally in campaign(seeds, options.seed, options.start, worker):
            _tell(tally, known, options.keep)
            if time.monotonic() > deadline or tally.mutants == options.count:
                break
    print(f"{tally.mutants} mutants, {len(tally.findings)} findings of {len(known)} kinds")
    for name, count in tally.ends.most_common():
        print(f"{count:8d}  {name}")
    return 1 if known else 0


def _tell(tally: Tally, known: set[str], keep: Path) -> None:
    """Saves and prints the kinds of findings that were not there before."""
    for finding in tally.findings:
        if finding.signature not in known:
            known.add(finding.signature)
            print(f"FOUND {finding.signature}: {finding.save(keep)}", flush=True)
    if tally.mutants % 500 == 0:
        print(f"{tally.mutants} mutants, {len(known)} kinds", flush=True)


if __name__ == "__main__":
    sys.exit(main())
