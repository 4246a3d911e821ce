"""Counts come from passed tests only, and a count that is lowered is refused."""

from collections import Counter
from pathlib import Path

import pytest

from tests.tools import counts, ratchet

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

@pytest.mark.counts("programs.{platform}")
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("i", range(3))
def test_program(platform, i):
    if i == 0: pytest.skip("none")
    assert (platform, i) != ("cpu", 1)

def test_plain(record_property): record_property("counted", "40 cases on cpu")
"""


@pytest.mark.long
@pytest.mark.parametrize("jobs", ["0", "2"])
def test_report_counts_what_passed(pytester: pytest.Pytester, jobs: str) -> None:
    pytester.makeini("[pytest]\nmarkers = counts(name): a count")
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(
        "from tests.tools import counts\n"
        "def pytest_collection_modifyitems(items): counts.label(items)"
    )
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("--junit-xml=report.xml", "-n", jobs)
    outcomes, passed = counts.read_report(pytester.path / "report.xml")
    assert outcomes == {"passed": 4, "failed": 1, "skipped": 2}
    assert passed == {
        "tests": 4, "programs.cpu": 1, "programs.interpreter": 2, "cases on cpu": 40
    }  # fmt: skip


def test_shortfall_is_named() -> None:
    wanted = {"tests": 5, "programs.cpu": 2, "new": 1}
    found = counts.shortfalls(wanted, Counter({"tests": 9, "programs.cpu": 1}))
    assert found == [
        "programs.cpu: 1 passed, tests/ratchet.toml says 2",
        "new: 0 passed, tests/ratchet.toml says 1",
    ]


OLD = "[counts]\ntests = 5\ncases = 7\n"
LOWERED = {
    "the same": (OLD, []),
    "more": ("[counts]\ntests = 6\ncases = 7\nnew = 1\n", []),
    "less": ("[counts]\ntests = 4\ncases = 7\n", ["tests went from 5 to 4"]),
    "gone": ("[counts]\ntests = 5\n", ["cases went from 7 to nothing"]),
    "allowed": ("[counts]\ntests = 4\ncases = 7\n[lowered.tests]\nfrom = 5\nwhy = 'x'\n", []),
    "allowed from less": (
        "[counts]\ntests = 3\ncases = 7\n[lowered.tests]\nfrom = 4\nwhy = 'x'\n",
        ["tests went from 5 to 3"],
    ),
}


@pytest.mark.parametrize("name", LOWERED)
def test_lowered_count_is_refused(name: str) -> None:
    new, starts = LOWERED[name]
    messages = ratchet.lowered(OLD, new)
    assert [message.partition(";")[0] for message in messages] == starts
