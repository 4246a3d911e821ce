"""`xladev explain` and `xladev cost` on the emulated platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xladev.cli.main import main
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister

PROGRAM = """HloModule m
ENTRY e { x = f32[8,16] parameter(0)
  y = f32[8,16] exponential(x)
  s = f32[8,16] custom-call(y), custom_call_target="twice"
  ROOT n = f32[8,16] negate(s) }
"""
TWICE = CustomCall("twice", "Doubles.", evaluate=lambda _, __, values: 2 * values[0])


@pytest.fixture
def program(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "m.hlo"
    path.write_text(PROGRAM)
    register(TWICE)
    yield str(path)
    unregister("twice")


def test_what_falls_back_is_told(
    emulated: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", program, "--platform", emulated]) == 0
    shown = capsys.readouterr().out
    assert f"where: 2 on {emulated}, 1 on the SDK's evaluator" in shown
    assert f"s (custom-call) on the SDK's evaluator: {emulated}: " in shown


def test_costs_by_the_device_described(
    emulated: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program, "--platform", emulated]) == 0
    assert "least time on" in capsys.readouterr().out


CONVOLUTION = """HloModule m
ENTRY e { x = f32[2,9,8,3] parameter(0)
  k = f32[3,2,3,5] parameter(1)
  ROOT c = f32[2,7,7,5] convolution(x, k), window={size=3x2}, dim_labels=b01f_01io->b01f }
"""


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("true", ["cuDNN computes it: forward"]),
        (
            "false",
            ["multiplies them for c: cuDNN is missing, or not wanted", "cuBLASLt computes it"],
        ),
    ],
)
def test_the_library_of_a_convolution(
    setting: str,
    told: list[str],
    emulated: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "c.hlo"
    path.write_text(CONVOLUTION)
    option = f"{emulated}.library_convolutions={setting}"
    assert main(["explain", str(path), "--platform", emulated, "--option", option]) == 0
    shown = capsys.readouterr().out
    assert [text for text in told if text not in shown] == []
