"""`xladev explain` and `xladev cost` on the emulated platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from xladev.cli.main import main

PROGRAM = """HloModule m
ENTRY e { x = f32[8,16] parameter(0)
  y = f32[8,16] exponential(x)
  s = f32[8,16] sort(y), dimensions={1}, to_apply=less
  ROOT n = f32[8,16] negate(s) }
"""
LESS = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(PROGRAM.replace("ENTRY", LESS + "ENTRY", 1))
    return str(path)


def test_what_falls_back_is_told(
    emulated: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", program, "--platform", emulated]) == 0
    shown = capsys.readouterr().out
    assert f"where: 2 on {emulated}, 1 on cpu" in shown
    assert f"s (sort) on cpu: {emulated}: " in shown
    assert f"y: 512 bytes: made on {emulated}, read by s on cpu" in shown


def test_costs_by_the_device_described(
    emulated: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program, "--platform", emulated]) == 0
    assert "least time on" in capsys.readouterr().out
