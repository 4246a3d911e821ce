"""`xladev explain`: kernels, and why their results are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loops import around, counted
from xladev.cli.main import main

PROGRAM = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[6,64] parameter(0)
  w = f32[64,8] parameter(1)
  zero = f32[] constant(0)
  e = f32[6,64] exponential(x)
  s = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
  b = f32[6,64] broadcast(s), dimensions={0}
  d = f32[6,64] divide(e, b)
  p = f32[6,8] dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[6,8] negate(p)
  ROOT t = (f32[6,8], f32[6,8]) tuple(n, p) }"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(PROGRAM)
    return path


def test_kernels_and_reasons(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(program)]) == 0
    shown = capsys.readouterr().out
    assert "d.fusion: exponential, reduce, broadcast, divide" in shown
    assert "each row is reduced (1 time) and used while it is in the cache" in shown
    assert "dot is a kernel of its own" in shown
    assert "m: 3 kernels of 6 instructions" in shown


def test_what_only_renames_an_array_is_no_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(
        """ENTRY e { x = f32[6,4] parameter(0)
          n = f32[6,4] cosine(x)
          v = f32[24] reshape(n)
          ROOT t = (f32[6,4], f32[24]) tuple(n, v) }"""
    )
    assert main(["explain", str(path), "--platform", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "v: reshape" not in shown
    assert "1 kernel of 1 instruction" in shown


def test_a_document(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(program), "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [list(kernel["opcodes"]) for kernel in kernels][-1] == ["negate"]
    assert kernels[0]["results"][0]["shape"] == "f32[6,64]"


def test_the_backend_is_named_where_it_forbids(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(program), "--option", "fusion=false"]) == 0
    assert "m: 6 kernels of 6 instructions" in capsys.readouterr().out


def test_a_platform_without_kernels(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(program), "--platform", "interpreter"]) == 0
    shown = capsys.readouterr().out
    assert "there is nothing to tell" in shown
    assert "where: 6 on interpreter\ncopies: none" in shown


COMPLEX = """HloModule c
ENTRY e { x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  n = f32[8] negate(x)
  z = c64[8] complex(n, y)
  r = f32[8] real(z)
  s = f32[8] add(r, n), metadata={op_name="f/add"}
  ROOT t = (f32[8], f32[8]) tuple(s, x) }"""
LOOP = counted("f32[8]", "y = f32[8] sine(x)", 3) + around("f32[8]")


def _explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *words: str
) -> tuple[str, dict[str, Any]]:
    """What is printed, and the document."""
    path = tmp_path / "p.hlo"
    path.write_text(text)
    assert main(["explain", str(path), *words]) == 0
    shown = capsys.readouterr().out
    assert main(["explain", str(path), *words, "--json"]) == 0
    return shown, json.loads(capsys.readouterr().out)


def test_where_instructions_run_and_what_is_transferred(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, report = _explained(
        tmp_path, capsys, COMPLEX, "--platform", "template_npu", "--option", "optimization_level=0"
    )
    assert "where: 2 on template_npu, 2 on cpu" in shown
    assert "z (complex) on cpu: template_npu: c64 is not in hardware" in shown
    assert "n: 32 bytes: made on template_npu, read by z on cpu" in shown
    assert "r: 32 bytes: made on cpu, read by s on template_npu" in shown
    assert "x: 32 bytes: a result is a parameter" in shown
    devices = {row["name"]: row["device"] for row in report["placements"]}
    assert devices == {"n": "template_npu", "z": "cpu", "r": "cpu", "s": "template_npu"}
    assert {row["name"] for row in report["copies"]} == {"n", "y", "r", "x"}


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("cpu", "s (add) on cpu: the program asks for it"),
        ("template_npu", "s (add) on template_npu: the program asks for it"),
        ("moon", "s (add) on template_npu: the program asks for moon, which is not there"),
    ],
)
def test_a_device_that_the_program_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: str, line: str
) -> None:
    asked = f'add(r, n), frontend_attributes={{xladev_device="{wanted}"}}'
    text = COMPLEX.replace("add(r, n)", asked)
    words = ("--platform", "template_npu", "--option", "optimization_level=0")
    shown, _ = _explained(tmp_path, capsys, text, *words)
    assert line in shown


def test_what_runs_are_estimated_to_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLADEV_CPU_PEAK_FLOPS", "1e11")
    monkeypatch.setenv("XLADEV_CPU_BANDWIDTH", "2e10")
    shown, report = _explained(tmp_path, capsys, PROGRAM, "--option", "devices=cpu,npu:0")
    first, *others = report["estimates"]
    assert others and first["seconds"] <= min(row["seconds"] for row in others)
    assert f"a run is estimated to take {first['seconds'] * 1e6:,.1f} us" in shown
    assert "us: all that is possible on template_npu" in shown


def test_what_a_loop_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, report = _explained(tmp_path, capsys, LOOP, "--option", "optimization_level=0", "--all")
    assert "w (while) on cpu: cpu takes it" in shown
    assert "y (sine) on cpu: with w" in shown
    assert "given: 32 bytes: w overwrites its state, and a parameter keeps its value" in shown
    assert {row["kind"] for row in report["copies"]} == {"copy"}


def test_what_the_sdk_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """HloModule p
ENTRY e { i = u32[] partition-id()
  ROOT n = u32[] negate(i) }"""
    shown, _ = _explained(tmp_path, capsys, text, "--platform", "template_npu")
    assert "i (partition-id) by the SDK: template_npu: " in shown
