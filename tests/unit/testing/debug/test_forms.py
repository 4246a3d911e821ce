"""The forms of a program mean what it means, and have kernels where the platform runs them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values
from tests.unit.testing.debug.test_placement import BRANCHES, LOOP, Partial, recorded_by
from xladev.client import load
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.testing.debug.forms import ProgramForm, forms_of
from xladev.testing.debug.placement import kernels

CLOSE = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
"""A product may sum in another order after passes."""


def forms_for(module: HloModule, seed: int, options: CompileOptions) -> tuple[ProgramForm, ...]:
    compiler = Partial(seed)
    return forms_of(module, CompileTarget("partial", compiler, compiler.describe()), options)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("text", [LOOP, BRANCHES], ids=["loop", "branches"])
def test_of_a_platform_that_takes_some(text: str, seed: int, level: int) -> None:
    module, options = parse_module(text), CompileOptions(optimization_level=level)
    *_, last = forms_for(module, seed, options)
    verify(last.module)
    assert_same_values(module, last.module, 1, compare=CLOSE)
    inside = [
        i.opcode
        for c in last.module.computations
        for fusion in c.instructions
        if fusion.opcode == "fusion"
        for i in fusion["calls"].instructions
    ]
    refused = {opcode for opcode in inside if not Partial(seed).takes(opcode)}
    assert refused <= {"parameter", "constant", "tuple"}
    formed = Counter(k.kernel.name for k in kernels(recorded_by(Partial(seed), module, options)))
    fusions = {
        i.name for c in last.module.computations for i in c.instructions if i.opcode == "fusion"
    }
    assert fusions <= set(formed)
    assert last.has_kernels == bool(fusions)


@pytest.mark.parametrize("seed", [1, 4])
def test_of_a_program(seed: int, programs_dir: Path) -> None:
    module = load(programs_dir / "while_newton_sqrt.pb")
    *_, last = forms_for(module, seed, CompileOptions())
    verify(last.module)
    assert_same_values(module, last.module, 1, compare=CLOSE)
