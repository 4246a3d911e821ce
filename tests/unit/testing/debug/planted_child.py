"""A child that judges programs with one of the differential test's bugs in the CPU backend."""

import os

import pytest

from tests.differential.planted import BUGS
from xladev.testing.verdict import Verdict, judge, unpack_case
from xladev.testing.wire import pack, unpack

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


def says_wrong_of_exchanges(message: bytes) -> bytes:
    """Finds each program wrong that has an all-reduce, and all others right."""
    head, arrays, proto = unpack(message)
    module, _ = unpack_case(head, arrays, proto)
    opcodes = {i.opcode for c in module.computations for i in c.instructions}
    verdict = Verdict("value", "planted") if "all-reduce" in opcodes else Verdict()
    return pack(verdict.to_json())
