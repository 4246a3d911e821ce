"""Compilations say where instructions run, if asked."""

from collections.abc import Iterator

import pytest

import xladev
from xladev.compiler.options import CompileOptions
from xladev.compiler.placement.placement_log import logs_device_placement
from xladev.runtime.registry import current_registry

TEXT = b"""HloModule m
ENTRY e { x = f32[4] parameter(0)
  sine.1 = f32[4] sine(x)
  ROOT negate.2 = f32[4] negate(sine.1) }"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    xladev.set_log_device_placement(False)


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    xladev.set_log_device_placement(True)
    options = CompileOptions(placement=(("opcode:sine", "npu:1"),))
    xladev.compile(TEXT, "npu:0", options)
    said = capsys.readouterr().err.splitlines()
    assert said == ["sine.1: (sine): template_npu:1", "negate.2: (negate): template_npu:0"]


def test_the_number_of_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    current_registry().platform("npu").provide_devices(2)
    xladev.set_log_device_placement(True)
    options = CompileOptions(placement=(("opcode:sine", "npu:0"),))
    xladev.compile(TEXT, "npu:1", options)
    assert (
        "sine.1: (sine): template_npu:0\nnegate.2: (negate): template_npu:1"
        in capsys.readouterr().err
    )


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    xladev.set_log_device_placement(True)
    assert logs_device_placement()
    xladev.set_log_device_placement(False)
    assert not logs_device_placement()
    xladev.compile(TEXT, "npu")
    assert capsys.readouterr().err == ""
