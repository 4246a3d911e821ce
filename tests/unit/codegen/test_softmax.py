"""Which instructions are a softmax, and what it is of."""

from __future__ import annotations

import pytest

from tests.unit.compiler.attention_programs import (
    CAUSAL,
    GUARDED,
    HEADS_APART,
    RESULT,
    SEEN,
    SOFTMAX,
    attention,
)
from xladev.codegen.softmax import Softmax, softmax_of

NEGATED = (
    SEEN.replace("NE", "EQ").replace("hidden =", "visible =")
    .replace("start =", "hidden = pred[B,H,Q,K] not(visible)\n  start =")
)  # fmt: skip
BY_NOT = (
    SEEN.replace("row =", "some =").replace("plain, zeros", "zeros, plain")
    .replace("rows =", "row = pred[B,H,Q] not(some)\n  rows =")
)  # fmt: skip


def found(softmax: str, result: str = RESULT) -> Softmax | None:
    return softmax_of(attention(HEADS_APART, CAUSAL, softmax, result).entry.root.operands[0])


@pytest.mark.parametrize(
    ("softmax", "is_guarded"),
    [(SOFTMAX, False), (GUARDED, True), (SEEN, True), (NEGATED, True), (BY_NOT, True)],
)
def test_all_spellings(softmax: str, is_guarded: bool) -> None:
    made = found(softmax)
    assert made is not None
    assert made.is_guarded == is_guarded
    assert made.scores.name == "x"
    assert (made.greatest.opcode, made.total.opcode) == ("maximum", "add")
    assert {"w", "d", "e", "s", "m"} - {"w"} <= {i.name for i in made.within}


def test_conversions_of_floats_are_seen_through() -> None:
    narrow = SOFTMAX.replace("e = f32[B,H,Q,K] exponential(d)", "h = bf16[B,H,Q,K] convert(d)\n"
        "  g = f32[B,H,Q,K] convert(h)\n  e = f32[B,H,Q,K] exponential(g)")  # fmt: skip
    assert found(narrow) is not None
    assert found(narrow.replace("bf16", "s32")) is None


@pytest.mark.parametrize(("zero", "is_one"), [("-0", True), ("1e-30", False)])
def test_sums_begin_at_zero(zero: str, is_one: bool) -> None:
    text = SOFTMAX.replace("constant(0)", f"constant({zero})")
    assert (found(text) is not None) == is_one


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("select(rows, zeros, plain)", "select(rows, plain, zeros)"),
        ("=all", "=any"),
        ("EQ", "NE"),
        ("constant(true)", "constant(false)"),
        ("zeros = f32[B,H,Q,K] broadcast(zero)", "zeros = f32[B,H,Q,K] broadcast(least)"),
        ("compare(x, low2)", "compare(d, low2)"),
    ],
)
def test_another_choice_is_no_guard(old: str, new: str) -> None:
    assert old in GUARDED
    assert found(GUARDED.replace(old, new)) is None
