"""Functions of f32 and f64 keep what is promised of them, and whoever measures that can tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.testing.accuracy import __main__ as command
from xladev.testing.accuracy import measure, truth
from xladev.testing.accuracy.errors import F32, F64, errors_in_ulps
from xladev.testing.accuracy.truth import PROMISES, Promise

STRIDE = 16381
"""Odd and prime: the inputs have all exponents, and other bits in each."""


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.opcode)
def test_functions_of_f32_keep_their_promise(promise: Promise, seed: int) -> None:
    one = promise.arity == 1
    inputs = measure.every_f32(STRIDE) if one else measure.pairs(promise, 1 << 19, seed)
    *_, worst = measure.worst_of(promise, dt.F32, "cpu", inputs)
    assert worst.ulps <= promise.ulps, worst


@pytest.mark.parametrize("promise", [p for p in PROMISES if p.has_wide_truth],
                         ids=lambda p: p.opcode)  # fmt: skip
def test_functions_of_f64_keep_their_promise(promise: Promise, seed: int) -> None:
    inputs = measure.doubles(promise, 1 << 19, seed)
    *_, worst = measure.worst_of(promise, dt.F64, "cpu", inputs)
    assert worst.ulps <= promise.wide_ulps, worst


def test_errors_count_places_of_the_true_value() -> None:
    true = np.array([1.0, 1.5, 2.0, 2.0**-149, 0.0], np.float64)
    got = true.astype(np.float32)
    assert not errors_in_ulps(got, true, F32).any()
    up = np.nextafter(got[:4], np.float32(np.inf))
    assert (errors_in_ulps(up, true[:4], F32) == 1).all()
    wide = true[:3].astype(np.longdouble)
    assert (errors_in_ulps(np.nextafter(true[:3], np.inf), wide, F64) == 1).all()


def test_infinity_is_near_where_the_true_value_is() -> None:
    true = np.array([2.0**128 * (1 - 2.0**-25), 2.0**130, 2.0**127], np.float64)
    got = np.full(3, np.inf, np.float32)
    assert errors_in_ulps(got, true, F32).tolist() == [0.5, 0, 2.0**23]


def test_errors_of_what_is_no_number() -> None:
    true = np.array([np.nan, np.nan, 1.0, -0.0, np.inf], np.float64)
    got = np.array([np.nan, 1.0, np.nan, 0.0, -np.inf], np.float32)
    assert errors_in_ulps(got, true, F32).tolist() == [0, np.inf, np.inf, np.inf, np.inf]


def test_a_broken_promise_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record, page = tmp_path / "record.json", tmp_path / "page.md"
    options = ["--functions=tanh", "--stride=65537", "--doubles=1", f"--record={record}"]
    assert command.main([*options, f"--write={page}"]) == 0
    assert "| `tanh` |" in page.read_text("utf-8")
    strict = Promise("tanh", np.tanh, 0.4, limits=(-25.0, 25.0))
    monkeypatch.setattr(command, "BY_OPCODE", {**truth.BY_OPCODE, "tanh": strict})
    assert command.main(options) == 1
    assert "BROKEN" in capsys.readouterr().out
