"""Bugs planted in the CPU's code generation, in real programs: isolated and bisected."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.conftest import PROGRAMS
from tests.unit.testing.debug import planted_child
from xladev.hlo.ir import HloModule
from xladev.hlo.load import load
from xladev.runtime.registry import current_registry
from xladev.testing.arrays import read_arrays
from xladev.testing.debug.bisect import bisect
from xladev.testing.debug.isolate import isolate
from xladev.testing.debug.suspect import Suspect

BUDGET_S = 120.0
FEWEST = 10
"""Instructions that a bisected program stays below."""

PLANTED = (
    ("mnist_softmax_train", "subtract swaps its operands", "subtract"),
    ("mnist_softmax_train", "broadcast lines dimensions up at the end", "broadcast"),
    ("pooling_fwd_bwd", "reduce leaves out an element", "reduce-window"),
    ("flax_cnn_optax_train", "convolution flips its kernel", "convolution"),
    ("rng_threefry", "concatenate repeats its last but one element", "concatenate"),
    ("flax_cnn_optax_train", "scatter keeps windows that hang over the edge", "scatter"),
    ("transformer_block_fwd_bwd", "concatenate repeats its last but one element", "concatenate"),
    ("transformer_block_fwd_bwd", "select takes the other branch", "select"),
    ("lstm_scan_fwd_bwd", "clamped starts end one too early", "dynamic-slice"),
    ("conv_variants", "transpose applies the inverse permutation", "transpose"),
    ("conv_variants", "window dilation is ignored", "convolution"),
)


@pytest.mark.rotating
@pytest.mark.skipif(not PROGRAMS.exists(), reason="../shared/programs is not here")
@pytest.mark.parametrize(("program", "bug", "opcode"), PLANTED)
def test_is_isolated_and_bisected(
    program: str, bug: str, opcode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(planted_child.VARIABLE, bug)
    module, arguments = _case(program)
    cpu = current_registry().platform("cpu")
    target = cpu.compile_target()
    with Suspect("cpu", function=planted_child.FUNCTION) as suspect:
        found = isolate(suspect, target, module, arguments)
        start = time.monotonic()
        small = bisect(suspect, module, arguments, budget_s=BUDGET_S).reduction
        seconds = time.monotonic() - start
    culprit = found.culprit
    assert culprit is not None
    while culprit.inside is not None:
        culprit = culprit.inside
    assert culprit.instruction.opcode == opcode
    assert small is not None
    opcodes = [i.opcode for i in small.module.entry.instructions]
    print(f"{program}, {bug}: {opcodes} after {seconds:.0f} s and {small.tried} programs")
    assert opcode in opcodes
    assert len(opcodes) < FEWEST


def _case(program: str) -> tuple[HloModule, list[np.ndarray]]:
    module = load(PROGRAMS / f"{program}.pb")
    shapes = [p.shape for p in module.entry.parameters]
    arguments = read_arrays(PROGRAMS / f"{program}.npz", "in_", shapes)
    assert arguments is not None
    return module, arguments
