"""`xladev diff`, `isolate`, `bisect` and `run --debug`, as their users see them."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.unit.testing.debug import planted_child
from xladev.cli.main import main
from xladev.hlo.load import load
from xladev.testing.debug.suspect import Suspect

PROGRAM = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  y = f32[4] subtract(x, ones), metadata={op_name="f/sub" source_file="f.py" source_line=3}
  z = f32[4] sqrt(y)
  ROOT r = f32[4] negate(z)
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "small.hlo"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> str:
    path = tmp_path / "inputs.npz"
    np.savez(path, in_0000=np.array([5, 2, 1, 0], np.float32))
    return str(path)


def _plant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(planted_child.VARIABLE, "subtract swaps its operands")
    with_bug = partial(Suspect, function=planted_child.FUNCTION)
    monkeypatch.setattr("xladev.cli.suspects.Suspect", with_bug)


@pytest.mark.long
def test_isolate_names_the_instruction_and_keeps_it(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], inputs: str,
) -> None:  # fmt: skip
    _plant(monkeypatch)
    words = ["isolate", str(program), "--inputs", inputs, "--platform", "cpu"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert "passes: the program means the same after each of them" in shown
    assert "within it, alone:\ny = f32[4] subtract (f/sub, f.py:3)" in shown
    (again,) = (line for line in shown.splitlines() if line.startswith("again: "))
    assert main(shlex.split(again)[2:]) == 0  # this process has no bug
    assert "check against interpreter: passed" in capsys.readouterr().out


@pytest.mark.long
def test_bisect_writes_the_small_program(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], inputs: str,
) -> None:  # fmt: skip
    _plant(monkeypatch)
    words = ["bisect", str(program), "--inputs", inputs, "--platform", "cpu"]
    assert main([*words, "--out", str(tmp_path / "out"), "--budget", "60"]) == 1
    shown = capsys.readouterr().out
    assert "6 instructions became 3, after" in shown
    small = load(tmp_path / "out" / "small.small.hlo")
    assert [i.opcode for i in small.entry.instructions][-1] == "subtract"


@pytest.mark.long
def test_nothing_wrong_is_success(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("isolate", "bisect"):
        assert main([command, str(program), "--platform", "cpu"]) == 0
        assert "nothing is wrong: cpu agrees with interpreter" in capsys.readouterr().out


def test_bad_usage_is_an_error(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--platform", "interpreter"], ["--timeout", "0"], ["--platform", "no"]):
        assert main(["bisect", str(program), *words]) == 2
        assert "xladev: error: [" in capsys.readouterr().err
    assert main(["isolate", str(program), "--out", "/proc/none", "--platform", "cpu"]) == 0


@pytest.mark.parametrize(("kind", "code"), [("nan", 1), ("inf", 0), ("bounds", 0)])
def test_debug_names_the_instruction(
    program: Path, capsys: pytest.CaptureFixture[str], inputs: str, kind: str, code: int
) -> None:
    assert main(["run", str(program), "--inputs", inputs, "--debug", kind]) == code
    shown = capsys.readouterr().out
    if kind == "nan":
        assert "the first NaN is made by z = f32[4] sqrt" in shown
        assert "operand y: f32[4] from -1 to 4" in shown
    else:
        assert "as the interpreter runs the program" in shown


def test_diff_shows_structure_and_numbers(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], inputs: str
) -> None:
    other = tmp_path / "other.hlo"
    other.write_text(PROGRAM.replace("negate", "abs"))
    assert main(["diff", str(program), str(program), "--numbers"]) == 0
    assert capsys.readouterr().out == "structure: the same\nnumbers on interpreter: the same\n"
    assert main(["diff", str(program), str(other), "--numbers", "--inputs", inputs]) == 1
    shown = capsys.readouterr().out
    assert "- r = f32[4] negate(z)\n+ r = f32[4] abs(z)\n" in shown
    assert "numbers on interpreter: value in result 0: 3 of 4 differ" in shown


def test_diff_of_other_arguments(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.hlo"
    other.write_text(PROGRAM.replace("f32[4]", "f32[5]"))
    assert main(["diff", str(program), str(other)]) == 1
    assert main(["diff", str(program), str(other), "--numbers"]) == 2
    assert "the programs take other arguments" in capsys.readouterr().err


def test_cost_of_a_program_and_of_its_kernels(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", str(program)]) == 0
    shown = capsys.readouterr().out
    assert "m: 8 floating-point operations, 4 transcendental functions, 132 bytes" in shown
    assert main(["cost", str(program), "--platform", "template_npu"]) == 0
    shown = capsys.readouterr().out
    assert "memory" in shown
    assert "least time on template NPU (simulated): " in shown
    assert main(["cost", str(program), "--platform", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["opcode"] for row in report["instructions"]] == ["fusion"]
    assert report["bytes_accessed"] == 32
    assert report["least_s"] > 0
    assert {row["bound"] for row in report["instructions"]} <= {"compute", "memory"}
    assert min(report["rates"].values()) > 0


def test_given_rates_of_the_cpu(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLADEV_CPU_PEAK_FLOPS", "1e9")
    monkeypatch.setenv("XLADEV_CPU_BANDWIDTH", "2e6")
    assert main(["cost", str(program), "--platform", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "least time on" in shown and ": 16.00 us, at 1 G/s of f32" in shown  # 32 bytes
    monkeypatch.setenv("XLADEV_CPU_PEAK_FLOPS", "fast")
    assert main(["cost", str(program), "--platform", "cpu"]) == 2
    assert "must be a positive number" in capsys.readouterr().err


def test_graph_in_every_format(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starts = {"html": b"<!doctype html>", "svg": b"<svg ", "dot": b"digraph"}
    for form, start in starts.items():
        made = tmp_path / f"x.{form}"
        assert main(["graph", str(program), "-o", str(made)]) == 0
        assert made.read_bytes().startswith(start)
    made = tmp_path / "passes.html"
    assert main(["graph", str(program), "--passes", "cse,dce", "-o", str(made)]) == 0
    assert main(["graph", str(program), "--platform", "cpu", "-o", str(made)]) == 0
    capsys.readouterr()
    assert main(["graph", str(program), str(program), "--format", "svg"]) == 2
    assert "a svg shows one program" in capsys.readouterr().err
