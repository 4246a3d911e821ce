"""A pytest plugin: writes a line of JSON when a test begins and when it ends.

JAX's tests are told that they run on a CPU.
"""

import importlib.util
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_SINK = Path(os.environ["XLADEV_JAX_SUITE_LOG"])
_WHY_CHARACTERS = 2000


def pytest_collection() -> None:
    """Sets JAX's own flag, before a test module is imported."""
    if importlib.util.find_spec("jax") is None:
        return
    import jax
    from jax._src import test_util  # noqa: F401 (defines the flag)

    jax.config.update("jax_test_dut", "cpu")


def _write(**fields: object) -> None:
    with _SINK.open("a") as file:
        file.write(json.dumps(fields) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _write(test=item.nodeid, state="begin", at=time.time())
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        why = "" if report.passed else str(report.longrepr)[-_WHY_CHARACTERS:]
        _write(test=report.nodeid, state=report.outcome, seconds=report.duration, why=why)
