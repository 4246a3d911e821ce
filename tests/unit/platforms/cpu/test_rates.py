"""Rates of this machine: measured ones are plausible, given ones are taken."""

from __future__ import annotations

import pytest

from xladev.errors import OptionError
from xladev.hlo.dtype import ARRAY_TYPES
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.rates import BANDWIDTH_VARIABLE, FLOPS_VARIABLE


def test_measured_rates_are_plausible(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (FLOPS_VARIABLE, BANDWIDTH_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    compiler = CpuCompiler()
    plain = compiler.describe()
    assert not plain.peak_flops  # no compilation measures anything
    rated = compiler.with_rates(plain)
    assert set(rated.peak_flops) == {t.name for t in ARRAY_TYPES}
    lanes = plain.vector_nbytes // 4
    # between one vector operation in 4 cycles of 1 GHz, and four multiply-adds in one of 8 GHz
    assert lanes * 0.25e9 < rated.peak_flops["f32"] < plain.cores * lanes * 8 * 8e9
    assert 1.5 < rated.peak_flops["f32"] / rated.peak_flops["f64"] < 2.5
    assert 0.2e9 < (rated.memory_spaces[0].bandwidth or 0) < 1e13


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1 GB"])
def test_given_rates(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(FLOPS_VARIABLE, "3e9")
    monkeypatch.setenv(BANDWIDTH_VARIABLE, "5e9")
    compiler = CpuCompiler()
    rated = compiler.with_rates(compiler.describe())
    assert (rated.peak_flops["f32"], rated.memory_spaces[0].bandwidth) == (3e9, 5e9)
    assert rated.peak_flops["f64"] == 1.5e9
    if text:
        monkeypatch.setenv(BANDWIDTH_VARIABLE, text)
        with pytest.raises(OptionError, match="BANDWIDTH"):
            compiler.with_rates(compiler.describe())
