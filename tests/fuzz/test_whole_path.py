"""Damaged programs through the whole path: a result or an XladevError, in bounded time and memory.

What is drawn depends on the number of commits: each commit sees other programs, and sees them
again. `python -m tests.tools.fuzz_whole` does the same for as long as one likes.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CASES_ZIP, PROGRAMS, unzipped
from tests.fuzz.campaign import campaign, whole_path_worker
from tests.fuzz.seeds import Seeds, find_seeds
from tests.tools.parts import commits
from xladev.testing.worker import Worker

ROUNDS = 24
MUTANTS = 125
SHORT = 2
"""Rounds that `make test` makes; each takes four seconds of processor time."""


@pytest.fixture(scope="module")
def seeds() -> Seeds:
    cases = unzipped(CASES_ZIP) if CASES_ZIP.is_file() else None
    return find_seeds(PROGRAMS if PROGRAMS.is_dir() else None, cases)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with whole_path_worker() as child:
        yield child


def rounds() -> Iterator[Any]:
    for part in range(ROUNDS):
        yield part if part < SHORT else pytest.param(part, marks=pytest.mark.long)


@pytest.mark.long
@pytest.mark.parametrize("part", rounds())
def test_damaged_programs(part: int, seeds: Seeds, worker: Worker, tmp_path: Path) -> None:
    *_, tally = islice(campaign(seeds, commits(), part * MUTANTS, worker), MUTANTS)
    kept = [f"{f.signature}: {f.save(tmp_path)}\n{f.text[-2000:]}" for f in tally.findings]
    assert not kept, "\n\n".join(kept)
    assert tally.mutants == MUTANTS
    assert {name.partition(":")[0] for name in tally.ends} > {"ran on cpu", "load"}
