"""All inputs of functions of f32: what is wrong is seen, what rounding explains is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xladev.hlo.literal import Array
from xladev.testing import every_f32, exhaustive
from xladev.testing.conformance.judge import SERVE
from xladev.testing.every_f32 import Function, functions, judge_block, run_blocks, summary
from xladev.testing.noise import evaluated
from xladev.testing.worker import Worker

FUNCTIONS = {f.name: f for f in functions()}
X = np.linspace(0.25, 4, 1000, dtype=np.float32)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_f32, "BLOCKS", 3)
    monkeypatch.setattr(every_f32, "BLOCK_BITS", 10)


def right(function: Function) -> Array:
    (want,) = evaluated(function.module(X.size), [X])
    return want.copy()


def test_the_functions() -> None:
    assert {"tanh", "sine", "erf", "is-finite", "convert-bf16", "convert-s8"} <= set(FUNCTIONS)
    assert not {"copy", "convert", "not", "popcnt"} & set(FUNCTIONS)


def test_a_few_units_are_counted_and_no_error() -> None:
    function = FUNCTIONS["exponential"]
    want = right(function)
    got = want.copy()
    for _ in range(3):
        got[7] = np.nextafter(got[7], np.float32(np.inf))
    block = judge_block(function, 0, X, got, want)
    assert (block.unequal, block.worst_ulps, block.bad) == (1, 3, 0)
    assert np.uint32(block.worst_at).view(np.float32) == X[7]


@pytest.mark.parametrize(
    ("name", "wrong"), [("exponential", 1.001), ("negate", 1 + 2.0**-23), ("sqrt", np.nan)]
)
def test_what_rounding_does_not_explain(name: str, wrong: float) -> None:
    function = FUNCTIONS[name]
    want = right(function)
    got = want.copy()
    got[11] *= np.float32(wrong)
    block = judge_block(function, 0, X, got, want)
    assert block.bad == 1
    assert np.uint32(block.first_bad).view(np.float32) == X[11]
    assert "1 WRONG" in summary(function, [block])


@pytest.mark.parametrize("name", ["convert-s8", "convert-bf16", "is-finite"])
def test_conversions_are_exact(name: str) -> None:
    function = FUNCTIONS[name]
    want = right(function)
    assert judge_block(function, 0, X, want.copy(), want).bad == 0
    got = want.copy()
    got[5:6] = np.logical_not(got[5]) if name == "is-finite" else 100
    assert judge_block(function, 0, X, got, want).bad == 1


@pytest.mark.long
@pytest.mark.usefixtures("few")
def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    function = FUNCTIONS["tanh"]
    with Worker(SERVE) as worker:
        first = run_blocks(function, "interpreter", worker, tmp_path)
        next(first), next(first)
        again = list(run_blocks(function, "interpreter", worker, tmp_path))
        assert [old for _, old in again] == [True, True, False]
        path = tmp_path / "interpreter-tanh.jsonl"
        path.write_text(path.read_text().replace('"code": "', '"code": "f00'))
        other = list(run_blocks(function, "interpreter", worker, tmp_path))
        assert [old for _, old in other] == [False, False, False]


@pytest.mark.long
@pytest.mark.usefixtures("few")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--folder={tmp_path}", "--platform=interpreter"]
    assert exhaustive.main([*options, "--functions=negate,sine"]) == 0
    assert "negate: 3072 inputs, 0 differ from the evaluator, none wrong" in capsys.readouterr().out
    assert exhaustive.main([*options, "--functions=floor", "--minutes=0"]) == 2
    with pytest.raises(SystemExit):
        exhaustive.main([*options, "--functions=nonsense"])
