"""Isolation and bisection find planted bugs, crashes and wrong passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.testing.debug import planted_child
from xladev.compiler.partition.assignment import CompileTarget
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes import default
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.pipeline import HloPassPipeline
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.runtime.registry import current_registry
from xladev.testing.debug.bisect import bisect
from xladev.testing.debug.isolate import Isolation, isolate
from xladev.testing.debug.suspect import Suspect
from xladev.testing.verdict import pack_case, unpack_case
from xladev.testing.wire import unpack

PROGRAM = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  zero = f32[] constant(0)
  d = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  shifted = f32[4,8] negate(d)
  power = f32[4,8] exponential(shifted)
  total = f32[4] reduce(power, zero), dimensions={1}, to_apply=add
  spread = f32[4,8] broadcast(total), dimensions={0}
  quotient = f32[4,8] divide(power, spread)
  ROOT r = f32[4,8] subtract(quotient, d)
}
"""
SWAPPED = "subtract swaps its operands"


def _case() -> tuple[HloModule, tuple[np.ndarray, ...]]:
    draw = np.random.default_rng(0).standard_normal
    shapes = ((4, 8), (8, 8))
    return parse_module(PROGRAM), tuple(draw(s).astype(np.float32) for s in shapes)


def _target() -> CompileTarget:
    cpu = current_registry().platform("cpu")
    return cpu.compile_target()


def _isolate(function: str = planted_child.FUNCTION) -> Isolation:
    with Suspect("cpu", function=function) as suspect:
        return isolate(suspect, _target(), *_case())


@pytest.mark.long
def test_the_instruction_is_named_within_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(planted_child.VARIABLE, SWAPPED)
    found = _isolate()
    assert found.verdict.kind == "value"
    assert found.step == ""
    assert found.culprit is not None
    assert found.culprit.instruction.opcode == "fusion"
    assert found.culprit.inside is not None
    assert found.culprit.inside.instruction.name == "r"
    assert found.judged[0] == found.judged[1] == 3


JOINED = """HloModule j
ENTRY e {
  x = f32[2,4,8,16] parameter(0)
  y = f32[2,4,16,8] parameter(1)
  p = f32[2,8,4,16] transpose(x), dimensions={0,2,1,3}
  q = f32[2,8,4,16] transpose(y), dimensions={0,3,1,2}
  s = f32[2,8,64] reshape(p)
  t = f32[2,8,64] reshape(q)
  ROOT joined = f32[2,8,128] concatenate(s, t), dimensions={2}
}
"""


@pytest.mark.long
def test_what_is_wrong_only_where_operands_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A concatenation of arrays in memory is copied, without the code that has the bug."""
    monkeypatch.setenv(planted_child.VARIABLE, "concatenate repeats its last but one element")
    shapes = (2, 4, 8, 16), (2, 4, 16, 8)
    arguments = tuple(np.arange(1024, dtype=np.float32).reshape(shape) for shape in shapes)
    with Suspect("cpu", function=planted_child.FUNCTION) as suspect:
        found = isolate(suspect, _target(), parse_module(JOINED), arguments)
    assert found.culprit is not None
    inside = found.culprit.inside
    assert inside is not None
    assert inside.instruction.opcode == "concatenate"
    assert inside.computes_operands


@pytest.mark.long
def test_bisection_leaves_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(planted_child.VARIABLE, SWAPPED)
    with Suspect("cpu", function=planted_child.FUNCTION) as suspect:
        found = bisect(suspect, *_case())
    assert found.reduction is not None
    assert [i.opcode for i in found.reduction.module.entry.instructions][-1] == "subtract"
    assert found.reduction.module.instruction_count == 3
    assert found.last.resembles(found.verdict)


@pytest.mark.long
def test_bisect_names_a_pass_of_the_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong value comes of a pass in `Compiler.pipeline`: the SDK's runner sees it."""
    monkeypatch.setattr(CpuCompiler, "pipeline", planted_child.wrong_pipeline)
    function = f"{planted_child.__name__}:judge_with_wrong_pass"
    with Suspect("cpu", function=function) as suspect:
        found = bisect(suspect, *_case(), target=_target())
    assert found.reduction is not None
    assert found.reduction.module.instruction_count == 3
    assert found.step == "vendor/swaps-operands"
    assert found.finding.startswith("value in result 0")


@pytest.mark.long
def test_nothing_is_wrong_without_the_bug() -> None:
    with Suspect("cpu") as suspect:
        assert not isolate(suspect, _target(), *_case()).verdict.is_wrong
        assert bisect(suspect, *_case()).reduction is None


@pytest.mark.long
def test_a_crash_is_bisected() -> None:
    with Suspect("cpu", function=f"{planted_child.__name__}:dies") as suspect:
        found = bisect(suspect, *_case())
    assert found.verdict.kind == "crash"
    assert "SIGABRT" in found.verdict.detail
    assert found.reduction is not None
    assert found.reduction.module.instruction_count <= 3


class _WrongPass(CommonSubexpressionElimination):
    """Takes sines for cosines."""

    name = "wrong-pass"

    def run(self, module: HloModule) -> HloModule:
        root = module.entry.root
        swapped = replace(root, operands=root.operands[::-1])
        entry = replace(
            module.entry, instructions=(*module.entry.instructions[:-1], swapped), root=swapped
        )
        return replace(module, entry=entry)


def test_a_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has the bug too, so the whole is wrong; the forms say where it began."""
    monkeypatch.setenv(planted_child.VARIABLE, SWAPPED)
    passes = (default._CANONICAL, _WrongPass(), default._SIMPLIFY)
    monkeypatch.setattr(
        "xladev.compiler.prepare.default_pipeline", lambda _: HloPassPipeline("default", passes)
    )
    found = _isolate()
    assert found.step == "default/wrong-pass"
    assert found.finding.startswith("value in result 0: 32 of 32 differ")


SEVERAL = """HloModule p, num_partitions=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4] parameter(0)
  number = u32[] partition-id()
  one = f32[] convert(number)
  mine = f32[4] broadcast(one), dimensions={}
  scaled = f32[4] multiply(x, mine)
  sum = f32[4] all-reduce(scaled), replica_groups={{0,1}}, to_apply=add, channel_id=1,
    use_global_device_ids=true
  ROOT r = f32[4] subtract(sum, scaled)
}
"""


def _isolate_several(function: str = planted_child.FUNCTION, text: str = SEVERAL) -> Isolation:
    arguments = (np.arange(1, 5, dtype=np.float32),)
    with Suspect("cpu", function=function) as suspect:
        return isolate(suspect, _target(), parse_module(text), arguments)


@pytest.mark.long
def test_an_instruction_of_several_devices_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(planted_child.VARIABLE, SWAPPED)
    found = _isolate_several()
    assert found.devices == 2
    assert found.culprit is not None
    assert found.culprit.instruction.name.startswith("r")
    assert found.culprit.device == (0, 0)


@pytest.mark.long
def test_the_device_that_goes_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """On device 0 both operands are zeros, which swapped give the same."""
    monkeypatch.setenv(planted_child.VARIABLE, SWAPPED)
    found = _isolate_several(
        text=SEVERAL.replace("subtract(sum, scaled)", "subtract(mine, scaled)")
    )
    assert found.culprit is not None
    assert found.culprit.device == (0, 1)
    assert found.culprit.instruction.opcode in ("fusion", "subtract")


@pytest.mark.long
def test_nothing_is_wrong_on_several_devices() -> None:
    with Suspect("cpu") as suspect:
        assert not isolate(
            suspect, _target(), parse_module(SEVERAL), (np.ones(4, np.float32),)
        ).verdict.is_wrong


def test_what_exchanges_data_is_named_where_all_else_is_right() -> None:
    found = _isolate_several(f"{planted_child.__name__}:says_wrong_of_exchanges")
    assert found.culprit is None
    assert found.exchanges == ("number", "sum")
    assert found.judged[0] == found.judged[1] >= 3


def test_a_case_keeps_its_devices_and_meshes() -> None:
    attributes = ', frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\\"i\\"=2]>}"}'
    text = SEVERAL.replace("num_partitions=2", f"num_partitions=2{attributes}")
    module = parse_module(text)
    message = pack_case({}, module, (np.zeros(4, np.float32),))
    head, arrays, proto = unpack(message)
    again, _ = unpack_case(head, arrays, proto)
    assert again.header.num_partitions == 2
    assert dict(again.header.frontend_attributes) == dict(module.header.frontend_attributes) != {}
