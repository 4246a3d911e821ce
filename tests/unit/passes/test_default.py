"""The default pipeline on real programs: valid, settled, and of the same values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.passes.checks import assert_same_values, opcodes
from xladev.hlo.proto import read_module
from xladev.hlo.verifier import verify
from xladev.passes.default import clean_up_pipeline, default_pipeline
from xladev.passes.pipeline import Instrumentation

SMALL = ["mlp_forward", "cond_switch", "while_newton_sqrt", "reductions", "int8_quant_dense"]


@pytest.mark.long
def test_every_program_stays_valid_and_settles(programs_dir: Path) -> None:
    for path in sorted(programs_dir.glob("*.pb")):
        module = read_module(path.read_bytes())
        pipeline = default_pipeline()
        after = pipeline.run_instrumented(module, Instrumentation(check=verify))
        assert "call" not in opcodes(after), path.name
        assert pipeline.run(after) is after, path.name
        assert clean_up_pipeline().run(after) is after, path.name


@pytest.mark.parametrize("name", SMALL)
def test_values_stay(name: str, programs_dir: Path, seed: int) -> None:
    module = read_module((programs_dir / f"{name}.pb").read_bytes())

    def near(want: np.ndarray, got: np.ndarray) -> None:
        wide = np.float64 if want.dtype.kind in "Vf" else want.dtype
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=1e-4, atol=1e-5)

    assert_same_values(module, default_pipeline().run(module), seed, compare=near)


def test_level_zero_only_brings_the_canonical_form() -> None:
    names = {each.name for each in default_pipeline(0).flat()}
    assert names == {"manual-region-expander", "synchronous-pairs", "domain-remover"}
