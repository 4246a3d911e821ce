"""The runner of JAX's tests: crashes, hangs and failures are told apart, and a run goes on."""

import sys
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
    return Suite(repo, tmp_path / "out", "mine", 3.0, 1, sys.executable)


def test_each_test_has_a_result(suite: Suite) -> None:
    jax_suite.run_file(suite, "some_test")
    found = jax_suite.results(suite.log("some_test"))
    states = {name.split("_")[-1]: record["state"] for name, record in found.items()}
    assert states == {
        "good": "passed", "bad": "failed", "crash": "crashed", "after": "passed",
        "hang": "timed out", "last": "passed",
    }  # fmt: skip
    before = suite.log("some_test").read_text()
    jax_suite.run_file(suite, "some_test")
    assert suite.log("some_test").read_text() == before
    assert jax_suite.counts(suite, "some_test") == (6, 3)
    why = jax_suite.failures(suite, "some_test")
    reasons = {jax_suite.reason(record) for record in why.values()}
    assert reasons == {"ValueError: bad N", "crashed", "timed out"}
