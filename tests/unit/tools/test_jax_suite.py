"""The runner of JAX's tests: crashes, hangs and failures are told apart, and a run goes on."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools import jax_suite
from tests.tools.jax_suite import Suite

TESTS = """
import os, time
def test_good(): pass
def test_bad(): raise ValueError('bad 12')
def test_crash(): os._exit(3)
def test_after(): pass
def test_hang(): time.sleep(100)
def test_last(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    repo = tmp_path / "repo"
    (repo / "tests").mkdir(parents=True)
    (repo / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (repo / "tests/some_test.py").write_text(TESTS)
    (tmp_path / "out").mkdir()
    return Suite(repo, tmp_path / "out", "mine", 3.0, 0, 1, sys.executable)


@pytest.mark.long
def test_each_test_has_a_result(suite: Suite) -> None:
    tests = jax_suite.collect(suite, "some_test")
    jax_suite.run_tests(suite, "some_test", tests)
    found = jax_suite.results(suite.log("some_test"))
    states = {name.split("_")[-1]: record["state"] for name, record in found.items()}
    assert states == {
        "good": "passed", "bad": "failed", "crash": "crashed", "after": "passed",
        "hang": "timed out", "last": "passed",
    }  # fmt: skip
    before = suite.log("some_test").read_text()
    jax_suite.run_tests(suite, "some_test", tests)
    assert suite.log("some_test").read_text() == before
    assert jax_suite.counts(suite, "some_test") == (6, 3)
    why = jax_suite.failures(suite, "some_test")
    reasons = {jax_suite.reason(record) for record in why.values()}
    assert reasons == {"ValueError: bad N", "crashed", "timed out"}


@pytest.mark.long
def test_shards_are_disjoint_and_whole(suite: Suite) -> None:
    whole = jax_suite.collect(suite, "some_test")
    shards = [replace(suite, first=first, step=4) for first in range(4)]
    found = [test for shard in shards for test in jax_suite.collect(shard, "some_test")]
    assert len(whole) == 6
    assert sorted(found) == sorted(whole)


def test_what_the_own_cpu_fails_is_not_expected(suite: Suite) -> None:
    states = {"a": "passed", "b": "failed", "c": "skipped", "d": "failed"}
    write(suite, states)
    assert jax_suite.counts(suite, "some_test") == (3, 1)
    write(replace(suite, platform=jax_suite.OWN), {"d": "failed", "b": "passed"})
    assert jax_suite.counts(suite, "some_test") == (2, 1)
    assert list(jax_suite.failures(suite, "some_test")) == ["b"]


def write(suite: Suite, states: dict[str, str]) -> None:
    lines = [json.dumps({"test": test, "state": state}) for test, state in states.items()]
    suite.log("some_test").write_text("\n".join(lines))


def test_a_report_counts_causes_and_operators_of_the_host(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = {t: {"state": "failed", "why": f"ValueError: bad {t}"} for t in ("1", "2")}
    tests = [{"on_host": {"Where": 2}}, {"on_host": {"Where": 1, "Unique": 1}}, {}]
    jax_suite.print_report(["a table"], failed, tests)
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert told[0] == "a table" and "2 fail:" in told and "2  ValueError: bad N" in told
    assert told[-2:] == ["2  Where", "1  Unique"]
