"""Rates of this machine: measured ones are plausible, given ones are taken."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest

from xladev.errors import OptionError
from xladev.hlo.dtype import ARRAY_TYPES
from xladev.platforms.cpu import rates
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
    assert 0.2e9 < (rated.memory_spaces[0].bandwidth or 0) < 1e13


def test_rates_are_work_by_the_threads_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = threading.local()

    def thread_time_ns() -> int:  # every reading of a thread is a millisecond after its last one
        if not hasattr(clocks, "readings"):
            clocks.readings = count(1_000_000, 1_000_000)
        return int(next(clocks.readings))

    monkeypatch.setattr(time, "thread_time_ns", thread_time_ns)
    compiler = CpuCompiler()
    lanes = compiler.describe().vector_nbytes // 4
    arithmetic = rates._arithmetic.__wrapped__()
    threads = rates.threads_wanted()
    work = 2.0 * lanes * rates._CHAINS * rates._ITERATIONS  # a multiply-add is two operations
    assert arithmetic["f32"] == pytest.approx(threads * work * 1e3)
    assert arithmetic["f64"] == pytest.approx(arithmetic["f32"] / 2)  # half as many lanes
    copied = 2.0 * rates._COPIED_NBYTES  # read and written
    assert rates._bandwidth.__wrapped__() == pytest.approx(threads * copied * 1e3)


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
