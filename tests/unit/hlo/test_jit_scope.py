"""Scopes: what a builder appends within a block."""

from __future__ import annotations

import pytest

from xladev import jit_scope
from xladev.errors import OptionError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import F32
from xladev.hlo.ir import Annotations
from xladev.hlo.jit_scope import scope_of, unscoped
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module, print_module


def test_the_innermost_block_counts_and_text_keeps_it() -> None:
    b = HloBuilder("nested")
    with jit_scope("outer"):
        x = b.parameter(array(F32, (2,)))
        y = b.op("negate", x)
        with jit_scope("inner"):
            z = b.op("negate", y)
        with jit_scope(compile=False):
            alone = b.op("negate", z)
        with unscoped():
            plain = b.op("negate", alone)
        last = b.op("negate", plain, note=Annotations(frontend_attributes=(("a", "b"),)))
    found = parse_module(print_module(b.module(last))).entry.instructions
    assert [scope_of(i) for i in found] == ["", "outer", "inner", "-", "", "outer"]
    assert dict(found[-1].note.frontend_attributes)["a"] == "b"


@pytest.mark.parametrize("name", ["", "-"])
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="cannot be named"), jit_scope(name):
        pass
