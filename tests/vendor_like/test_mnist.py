"""A training step on a chip without broadcasts, gathers and transposes: few transfers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.compiler.program.program import Program
from xladev.compiler.program.thunks import Transfer
from xladev.runtime.registry import Registry

PROGRAMS = Path(__file__).parents[2] / "examples" / "mnist_softmax" / "programs"


def transfers(program: Program) -> int:
    """Values that go from one platform to another in one run without loops."""
    return sum(
        p.slots[t.source].platform != p.slots[t.result].platform
        for p in program.procedures
        for t in p.thunks
        if isinstance(t, Transfer)
    )


@pytest.mark.parametrize("size", [64, 784])
def test_a_step_makes_four_transfers(registry: Registry, size: int) -> None:
    module = xladev.load(PROGRAMS / f"step_{size}.pb")
    step, want = xladev.compile(module, "vendor_like"), xladev.compile(module, "cpu")
    assert transfers(step.program) <= 4
    assert dict(step.program.instruction_counts)["vendor_like"] >= 15
    rng = np.random.default_rng(0)
    state = [np.zeros((size, 10), np.float32), np.zeros(10, np.float32)]
    other = list(state)
    for _ in range(3):
        x = rng.random((100, size), np.float32)
        y = rng.integers(0, 10, 100, np.int32)
        *state, loss = step(*state, x, y)
        *other, wanted = want(*other, x, y)
        np.testing.assert_allclose(loss.numpy(), wanted.numpy(), rtol=1e-5)
        for mine, theirs in zip(state, other, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)


def test_both_products_are_on_the_chip(registry: Registry) -> None:
    module = xladev.load(PROGRAMS / "step_784.pb")
    program = xladev.compile(module, "vendor_like").program
    assert not [f for f in program.fallbacks if f.opcode in ("dot", "transpose")]


def test_every_other_step_has_no_choice_to_make(registry: Registry) -> None:
    """Where the chip takes everything, nothing is asked of the host."""
    text = """HloModule m
ENTRY e { x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT b = f32[64,64] tanh(a) }"""
    program = xladev.compile(text.encode(), "vendor_like").program
    assert program.platforms == ("vendor_like",)
