"""Random programs on the CPU against the evaluator, and where jaxlib is, against XLA."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from xladev.testing.campaign import Campaign
from xladev.testing.fuzz_task import Task

PROGRAMS = 48
XLA_PROGRAMS = 24
"""Programs per test; ten commits visit all tests."""


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(0, 2400, PROGRAMS))
def test_cpu_agrees_with_the_evaluator(first: int, tmp_path: Path) -> None:
    campaign = Campaign(Task(), tmp_path, reduce_s=20.0)
    campaign.run(first, PROGRAMS)
    assert campaign.programs == PROGRAMS
    assert not campaign.failures, campaign.summary()


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(10_000, 10_480, XLA_PROGRAMS))
def test_xla_agrees_with_the_evaluator(first: int, tmp_path: Path) -> None:
    campaign = Campaign(Task(xla=_python_with_jaxlib()), tmp_path, reduce_s=20.0)
    campaign.run(first, XLA_PROGRAMS)
    assert not campaign.failures, campaign.summary()
    assert campaign.xla["compared"], campaign.summary()


def _python_with_jaxlib() -> str:
    named = os.environ.get("XLADEV_ORACLE_PYTHON")
    if not named and importlib.util.find_spec("jaxlib") is None:
        pytest.skip("no jaxlib here, and XLADEV_ORACLE_PYTHON names no Python that has it")
    return named or sys.executable
