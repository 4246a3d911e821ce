"""Which instructions only rename an array."""

import pytest

from xladev.hlo.text import parse_module
from xladev.hlo.views import is_view


@pytest.mark.parametrize(
    ("line", "renames"),
    [
        ("f32[32] reshape(x)", True),
        ("f32[8,4] bitcast(x)", True),
        ("f32[8,4]{1,0} reshape(x)", True),
        ("f32[8,4]{0,1} reshape(x)", False),
        ("s32[4,8] bitcast(x)", False),
        ("f32[4,8] copy(x)", False),
        ("f32[8,4] transpose(x), dimensions={1,0}", False),
    ],
)
def test_only_what_keeps_the_order_of_elements_renames(line: str, renames: bool) -> None:
    module = parse_module(f"HloModule m\nENTRY e {{ x = f32[4,8] parameter(0)\nROOT r = {line} }}")
    assert is_view(module.entry.root) == renames


def test_what_may_have_fewer_elements_does_not() -> None:
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[<=4,8] parameter(0)\nROOT r = f32[<=32] reshape(x) }"
    )
    assert not is_view(module.entry.root)
