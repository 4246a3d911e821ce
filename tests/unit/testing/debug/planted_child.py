"""A child that judges programs with one of the differential test's bugs in the CPU backend."""

import os

import pytest

from tests.differential.planted import BUGS
from xladev.testing.verdict import judge

VARIABLE = "XLADEV_TEST_PLANTED_BUG"
FUNCTION = f"{__name__}:judge_with_bug"


def judge_with_bug(message: bytes) -> bytes:
    """The child's function, with the bug that the environment names."""
    (bug,) = (b for b in BUGS if b.name == os.environ[VARIABLE])
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return judge(message)


def dies(message: bytes) -> bytes:
    """Ends the process."""
    os.abort()
