"""The conformance suite still catches the mechanical mutants on record: a tenth per commit.

All must be in the source on every commit: one that is gone is a failure, never skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from tests.mutants.campaign import Verdict, mutant_worker, run_cases
from tests.mutants.handmade import alike
from tests.mutants.results import Entry, read_judgements, read_mechanical
from tests.mutants.sites import COUNT, find
from xladev.testing.worker import Worker

RECORD = read_mechanical()
CAUGHT = [e for e in RECORD if e.verdict is not None and e.verdict.status == "caught"]
LEAST = 0.95


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with mutant_worker() as made:
        yield made


@pytest.mark.long
@pytest.mark.rotating
@pytest.mark.parametrize("entry", CAUGHT, ids=lambda e: e.site.id)
def test_it_is_still_caught(entry: Entry, worker: Worker) -> None:
    """By the case on record; where that has changed, by another one about the same."""
    assert find(entry.site) is not None, gone(entry)
    assert entry.verdict is not None
    verdict = _retried(worker, entry, entry.verdict.case)
    assert verdict.status == "caught", (
        "no case like the one on record fails; is the mutant equivalent now, or is a case gone? "
        f"python -m tests.mutants mechanical --only '{entry.site.id}'"
    )


def gone(entry: Entry) -> str:
    """What to do about a mutant whose source has changed."""
    site = entry.site
    return (
        f"{site.id}: {site.file} has no {site.before!r} there any more. A record of what is not "
        "run says nothing: give it the place that its source went to in mechanical.json, or let "
        "`python -m tests.mutants mechanical` draw another of its family, then run docs/gen/all.py"
    )


def test_every_mutant_on_record_is_in_the_source() -> None:
    """All of them on each commit: it takes a second, and the change that moved one is at hand."""
    assert [gone(entry) for entry in RECORD if find(entry.site) is None] == []


def _retried(worker: Worker, entry: Entry, case: str) -> Verdict:
    plant = {"site": asdict(entry.site)}
    found = run_cases(worker, plant, entry.site.platform, alike(case)[:1])
    if found.status == "caught":
        return found
    return run_cases(worker, plant, entry.site.platform, alike(case)[1:60])


def test_three_hundred_mechanical_mutants_are_on_record() -> None:
    assert len({e.site.id for e in RECORD}) == len(RECORD) == COUNT


def test_enough_are_caught_and_every_survivor_is_judged() -> None:
    judged = read_judgements()
    left = [e for e in RECORD if e not in CAUGHT]
    assert [e.site.id for e in left if e.site.id not in judged] == []
    gaps = [e.site.id for e in left if judged[e.site.id][0] == "gap"]
    assert len(CAUGHT) >= LEAST * (len(CAUGHT) + len(gaps)), gaps


def test_judgements_are_of_survivors() -> None:
    left = {e.site.id for e in RECORD if e not in CAUGHT}
    assert set(read_judgements()) <= left
