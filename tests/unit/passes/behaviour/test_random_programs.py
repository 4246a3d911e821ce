"""Passes keep the values of random programs, are settled after one run, and leave legal modules."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from tests.unit.passes.checks import leaves
from xladev.errors import XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify
from xladev.passes.call_inliner import CallInliner
from xladev.passes.registry import PASSES
from xladev.testing.random_inputs import random_arguments
from xladev.testing.random_program import random_program
from xladev.testing.recipes.table import RECIPES

PROGRAMS = 60
CONTROL = ("while", "conditional", "call", "add", "multiply", "dot", "sine", "reduce")
KEEP_EVERY_BIT = (
    "call-inliner", "computation-deduplicator", "conditional-simplifier", "conditional-to-select",
    "cse", "dce", "map-inliner", "tuple-simplifier", "while-constant-sinking",
    "while-invariant-motion", "while-simplifier", "while-unroller", "zero-sized-elimination",
)  # fmt: skip


@lru_cache
def program(number: int) -> tuple[HloModule, list[Any], list[Any]] | None:
    """A program, arguments and results; None if it cannot be compared bit by bit."""
    drawn = random_program(number, RECIPES, opcodes=CONTROL, wild=number % 3 == 0)
    module = CallInliner().run(drawn)
    if not _has_plain_reducers(module):
        return None
    given = random_arguments(module, number, wild=number % 3 == 0)
    try:
        return module, given, leaves(HloEvaluator().run(module, *given))
    except XladevError:
        return None


def _has_plain_reducers(module: HloModule) -> bool:
    """True if no reducer can become simpler: sums by one opcode are taken in a wider type."""
    return not any(
        len(called.instructions) > len(called.parameters) + 1
        for c in module.computations
        for i in c.instructions
        if i.opcode.startswith("reduce")
        for called in i.called
    )


@pytest.mark.parametrize("name", KEEP_EVERY_BIT)
def test_values_stay(name: str, seed: int) -> None:
    first = 1000 * (seed % 1000)
    for number in range(first, first + PROGRAMS):
        found = program(number)
        if found is None:
            continue
        module, given, wanted = found
        once = PASSES[name]()
        after = once.run(module)
        if after is module:
            continue
        verify(after)
        assert once.run(after) is after, f"program {number}: not settled"
        for want, got in zip(wanted, leaves(HloEvaluator().run(after, *given)), strict=True):
            assert _same(got, want), f"program {number}"


def _same(got: np.ndarray, want: np.ndarray) -> bool:
    """True if all bits are the same, but for those of NaN."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    differs = (_bits(got) != _bits(want)).any(axis=-1)
    return bool(np.all(~differs | ((got != got) & (want != want)).reshape(-1)))


def _bits(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(x.tobytes(), np.uint8).reshape(x.size, x.itemsize)
