"""What a platform rejects and constants alone decide is made once, not in every run."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler, subset_registry
from xladev import client
from xladev.compiler.description import DeviceDescription
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.rejected_constants import RejectedConstants
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

TEXT = """
HloModule masked
ENTRY main {
  x = f32[3,4] parameter(0)
  i = s32[3,4] iota(), iota_dimension=0
  two = s32[] constant(2)
  twos = s32[3,4] broadcast(two), dimensions={}
  mask = pred[3,4] compare(i, twos), direction=LT
  zero = f32[] constant(0)
  zeros = f32[3,4] broadcast(zero), dimensions={}
  ROOT r = f32[3,4] select(mask, x, zeros)
}
"""
LOOP = """
HloModule loop
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={}
  y = f32[4] multiply(x, halves)
  ROOT t = (s32[], f32[4]) tuple(n, y)
}
condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT p = pred[] compare(i, three), direction=LT
}
ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
}
"""


def without(*opcodes: str) -> Callable[[HloInstruction], bool]:
    return lambda i: i.opcode not in opcodes


def rewritten(text: str, supported: Callable[[HloInstruction], bool], **limit: int) -> HloModule:
    target = CompileTarget("subset", SubsetCompiler(Subset(supported)), DeviceDescription())
    module = RejectedConstants(target, **limit).run(parse_module(text))
    verify(module)
    return module


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry.instructions]


def test_rejected_broadcasts_and_iota_become_constants() -> None:
    module = rewritten(TEXT, without("broadcast", "iota"))
    assert sorted(opcodes(module)) == ["compare", "constant", "constant", "constant", "parameter",
                                       "select"]  # fmt: skip
    values = {str(i.shape): i["literal"].array for i in module.entry.instructions
              if i.opcode == "constant"}  # fmt: skip
    assert values["f32[3,4]"].tolist() == np.zeros((3, 4)).tolist()


def test_what_is_taken_stays_though_a_rejected_reader_is_made_of_it() -> None:
    module = rewritten(TEXT, without("compare"))
    made = [i for i in module.entry.instructions if i.opcode == "constant" and i.shape.rank == 2]
    (mask,) = made
    assert mask["literal"].array.tolist() == [[True] * 4, [True] * 4, [False] * 4]
    assert "broadcast" in opcodes(module) and "iota" not in opcodes(module)


def test_what_depends_on_a_parameter_stays() -> None:
    assert opcodes(rewritten(TEXT, without("select"))) == opcodes(parse_module(TEXT))


@pytest.mark.parametrize("max_nbytes", [47, 48])
def test_what_is_too_large_stays(max_nbytes: int) -> None:
    module = rewritten(TEXT, without("iota"), max_nbytes=max_nbytes)
    assert ("iota" in opcodes(module)) == (max_nbytes < 48)


def test_what_takes_long_to_compute_stays() -> None:
    text = """
    HloModule m
    first {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] subtract(a, b) }}
    ENTRY main {{ x = f32[] parameter(0)  one = f32[] constant(1)
      ones = f32[{n}] broadcast(one), dimensions={{}}
      s = f32[] reduce(ones, one), dimensions={{0}}, to_apply=first
      ROOT r = f32[] add(x, s) }}
    """
    few, many = (rewritten(text.format(n=n), without("reduce")) for n in (1000, 2000))
    assert "reduce" not in opcodes(few) and "reduce" in opcodes(many)


def test_without_a_platform_nothing_changes() -> None:
    module = parse_module(TEXT)
    assert RejectedConstants().run(module) is module


@pytest.mark.parametrize("text", [TEXT, LOOP])
def test_nothing_is_copied_to_the_device_in_a_run(text: str) -> None:
    subset = Subset(without("broadcast", "iota", "while"))
    module = parse_module(text)
    x = np.arange(module.entry.parameters[0].shape.size, dtype=np.float32)
    x = x.reshape(module.entry.parameters[0].shape.dims)
    with subset_registry(subset):
        program = client.compile(module, "subset", CompileOptions())
        result = np.asarray(program(x))
        thunks = [type(t).__name__ for p in program.program.procedures for t in p.thunks]
    expected = np.where(np.arange(3)[:, None] < 2, x, 0) if text == TEXT else x / 8
    np.testing.assert_array_equal(result, expected)
    assert thunks.count("Transfer") == 0, thunks
    assert not program.program.fallbacks
