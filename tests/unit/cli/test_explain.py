"""`xladev explain`: kernels, and why their results are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert "each row is folded (1 times) and used while it is in the cache" in shown
    assert "dot is a kernel of its own" in shown
    assert "m: 3 kernels of 6 instructions" in shown


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
    assert "there is nothing to tell" in capsys.readouterr().out
