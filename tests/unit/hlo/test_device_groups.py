"""Which devices a collective joins, and what is said of those that are not there."""

import pytest

from xladev.errors import EvaluationError
from xladev.hlo.device_groups import device_groups
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module


def gather(groups: str) -> HloInstruction:
    text = f"""ENTRY e {{ p = f32[1] parameter(0)
      ROOT g = f32[2] all-gather(p), replica_groups={groups}, dimensions={{0}} }}"""
    return parse_module(text).entry.root


def test_groups_are_of_devices() -> None:
    assert device_groups(gather("{{1,0},{2,3}}"), 4, 1) == ((1, 0), (2, 3))
    assert device_groups(gather("{{0,1}}"), 2, 2) == ((0, 2), (1, 3))


@pytest.mark.parametrize(
    ("groups", "told"),
    [("{{0,7}}", "twice: 7"), ("{{0,1},{1,2}}", "twice: 1, 2"), ("[1,2000]<=[2000]", "9, ...")],
)
def test_those_that_are_not_there_are_told_briefly(groups: str, told: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        device_groups(gather(groups), 2, 1)
    assert caught.value.what.endswith(told)
    assert len(str(caught.value)) < 500
