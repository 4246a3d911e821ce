"""Counts passed tests by name, from their `counts` markers, across parts of a run.

`@pytest.mark.counts("programs.{platform}")` adds one to the count "programs.cpu" for each passed
test whose parameter `platform` is "cpu". A test that holds many cases says how many passed with
`record_property("counted", "512 name of the count")`. Both travel in JUnit's XML as properties.
"""

import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest

RATCHET = Path(__file__).parents[1] / "ratchet.toml"
OUTCOMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


def label(items: list[pytest.Item]) -> None:
    """Write each item's count names where the XML report takes them from."""
    for item in items:
        parameters = (
            item.callspec.params
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else {}
        )
        for mark in item.iter_markers("counts"):
            names = (str(name).format(**parameters) for name in mark.args)
            item.user_properties.extend(("counts", name) for name in names)


def read_report(path: Path) -> tuple[Counter[str], Counter[str]]:
    """(tests by outcome, passed tests by count name) of one JUnit XML report."""
    outcomes: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    counts: Counter[str] = Counter()
    for case in ElementTree.parse(path).iter("testcase"):
        outcome = next((OUTCOMES[e.tag] for e in case if e.tag in OUTCOMES), "passed")
        outcomes[outcome] += 1
        if outcome == "passed":
            counts["tests"] += 1
            counts.update(_counts_of(case))
    return outcomes, counts


def _counts_of(case: ElementTree.Element) -> Counter[str]:
    found: Counter[str] = Counter()
    for item in case.iter("property"):
        value = item.get("value", "")
        if item.get("name") == "counts":
            found[value] += 1
        elif item.get("name") == "counted":
            number, _, name = value.partition(" ")
            found[name] += int(number)
    return found


def read_ratchet(text: str) -> dict[str, int]:
    """The counts in a ratchet file's text."""
    return {name: int(count) for name, count in tomllib.loads(text).get("counts", {}).items()}


def shortfalls(wanted: dict[str, int], counts: Counter[str]) -> list[str]:
    """A sentence for each count that is below what the ratchet file says."""
    return [
        f"{name}: {counts[name]} passed, tests/ratchet.toml says {count}"
        for name, count in wanted.items()
        if counts[name] < count
    ]
