"""Checks that a shape rule rejects what it must, citing its constraint."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.tools.single_op import infer
from xladev.errors import ShapeError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import OPAQUE_SHAPE, TOKEN_SHAPE, Shape, array, tuple_of

_NAMED = {"token": TOKEN_SHAPE, "opaque": OPAQUE_SHAPE, "()": tuple_of()}


def of(text: str) -> Shape:
    """The shape of ``f32[2,<=3]``, ``token``, ``opaque`` or ``()``."""
    if text in _NAMED:
        return _NAMED[text]
    found = re.fullmatch(r"(\w+)\[([^\]]*)\]", text)
    assert found, text
    sizes = [size for size in found[2].split(",") if size]
    dims = [-1 if size == "?" else int(size.removeprefix("<=")) for size in sizes]
    dynamic = [size[0] in "?<" for size in sizes]
    return array(dt.by_name(found[1]), dims, dynamic=dynamic)


def result_of(opcode: str, *operands: str, to: str | None = None, **attrs: Any) -> str:
    """The inferred result's text."""
    shape = None if to is None else of(to)
    return infer(opcode, *map(of, operands), shape=shape, **attrs).to_string(layout=False)


def assert_rejected(
    constraint: str,
    opcode: str,
    *operands: str | Shape,
    to: str | Shape | None = None,
    **attrs: Any,
) -> None:
    """Requires a ShapeError that cites exactly this constraint."""
    shapes = [of(s) if isinstance(s, str) else s for s in operands]
    with pytest.raises(ShapeError) as caught:
        infer(opcode, *shapes, shape=of(to) if isinstance(to, str) else to, **attrs)
    assert caught.value.why == f"constraint {constraint}", str(caught.value)
