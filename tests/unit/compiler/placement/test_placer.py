"""Programs whose instructions name devices run on several of them."""

from collections.abc import Iterator

import numpy as np
import pytest

import xladev
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import NOT_PLACED
from xladev.compiler.program.program import Program
from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.shape import array
from xladev.runtime.registry import Registry, using_registry

TEXT = """HloModule m
ENTRY e {{ x = f32[32,32] parameter(0)
  a = f32[32,32] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
      frontend_attributes={{xladev_device="{0}"}}
  b = f32[32,32] tanh(a), frontend_attributes={{xladev_device="{1}"}}
  ROOT d = f32[32,32] add(b, a) }}"""
LOOP = """HloModule m
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[8] sine(x)
  z = f32[8] negate(y)
  ROOT t = (s32[], f32[8]) tuple(n, z)
}
condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT p = pred[] compare(i, three), direction=LT
}
ENTRY main {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(t), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}"""


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    made = Registry()
    with using_registry(made):
        yield made
    made.close()


def regions(program: Program) -> list[str]:
    return [e.signature.platform for e in program.executables]


@pytest.mark.parametrize(
    ("first", "second", "places"),
    [
        ("npu:1", "cpu:0", ["template_npu:1", "cpu", "template_npu"]),
        ("template_npu:1", "NPU:2", ["template_npu:1", "template_npu:2", "template_npu"]),
        ("npu:0", "npu", ["template_npu"]),
    ],
)
def test_each_instruction_runs_where_it_says(first: str, second: str, places: list[str]) -> None:
    made = xladev.compile(TEXT.format(first, second).encode(), "template_npu")
    assert regions(made.program) == places
    x = np.random.default_rng(0).standard_normal((32, 32), np.float32)
    np.testing.assert_allclose(made(x).numpy(), np.tanh(x @ x) + x @ x, rtol=1e-4, atol=1e-4)


def test_the_number_of_the_target_counts() -> None:
    made = xladev.compile(TEXT.format("npu:1", "npu:0").encode(), "template_npu:1")
    assert regions(made.program) == ["template_npu", "template_npu:0", "template_npu"]
    assert [d.name for d in made.devices] == ["template_npu:1"]


def test_a_saved_program_runs(tmp_path) -> None:
    made = xladev.compile(TEXT.format("npu:1", "cpu").encode(), "template_npu")
    made.save(tmp_path / "p.xladev")
    again = xladev.load_executable(tmp_path / "p.xladev")
    x = np.random.default_rng(0).standard_normal((32, 32), np.float32)
    np.testing.assert_array_equal(again(x).numpy(), made(x).numpy())


def test_rules_place_too_and_reach_into_loops() -> None:
    rules = (("opcode:sine", "npu:1"), ("opcode:negate", "cpu"))
    made = xladev.compile(LOOP.encode(), "template_npu", CompileOptions(placement=rules))
    assert {"template_npu:1", "cpu"} <= set(regions(made.program))
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    want = x
    for _ in range(3):
        want = -np.sin(want)
    np.testing.assert_allclose(made(x).numpy(), want, rtol=1e-5, atol=1e-6)


def test_a_loop_runs_whole_where_it_is_placed() -> None:
    rules = (("opcode:while", "npu:1"),)
    made = xladev.compile(LOOP.encode(), "template_npu", CompileOptions(placement=rules))
    assert regions(made.program) == ["template_npu:1"]


def test_a_builder_places_and_a_compilation_is_not_placed() -> None:
    b = HloBuilder("built")
    x = b.parameter(array(dt.F32, (4,)))
    with xladev.device("npu:1"):
        y = b.op("sine", x)
    module = b.module(b.op("negate", y))
    with xladev.device("cpu"):
        made = xladev.compile(module, "template_npu")
    assert regions(made.program) == ["template_npu:1", "template_npu"]


@pytest.mark.parametrize("gone", ["cpu:3", "moon:0"])
def test_work_of_a_removed_device_moves(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    monkeypatch.setenv("XLADEV_CPU_DEVICES", "2")
    module = TEXT.format("npu:1", gone).encode()
    made = xladev.compile(module, "template_npu")
    assert regions(made.program) == ["template_npu:1", "template_npu"]
    with pytest.raises(UnsupportedError, match=r"b \(tanh\) cannot run on") as caught:
        xladev.compile(module, "template_npu", CompileOptions(soft_placement=False))
    assert caught.value.code == NOT_PLACED
    assert f"there is no device {gone}" in str(caught.value)


def test_what_a_device_does_not_take_moves() -> None:
    text = """HloModule m
ENTRY e { x = f64[8] parameter(0)
  ROOT y = f64[8] sine(x), frontend_attributes={xladev_device="npu:1"} }"""
    made = xladev.compile(text.encode(), "cpu")
    assert regions(made.program) == ["cpu"]
    with pytest.raises(UnsupportedError, match=r"y \(sine\) cannot run on template_npu:1") as why:
        xladev.compile(text.encode(), "cpu", CompileOptions(soft_placement=False))
    assert "f64 is not in hardware" in str(why.value)
