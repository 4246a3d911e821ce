"""The option ``op_by_op``: each instruction is launched by itself, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from tests.unit.loops import around, counted
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.thunks import RunExecutable, While
from xladev.hlo.text import parse_module
from xladev.instrument import tracing

CALLED = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
double { p = f32[4] parameter(0)
  ROOT q = f32[4] add(p, p) }
"""
TURN = """w = f32[4] sine(x)
  y = f32[4] add(w, x)"""
AFTER = """f = f32[4] fusion(last), kind=kLoop, calls=double
  none = f32[] constant(0)
  ROOT sum = f32[] reduce(f, none), dimensions={0}, to_apply=add"""
PROGRAM = CALLED + counted("f32[4]", TURN, 3) + around("f32[4]", after=AFTER)


@pytest.mark.parametrize("platform", ["cpu", "interpreter", "template_npu"])
def test_each_instruction_is_launched_by_itself(platform: str) -> None:
    module = parse_module(PROGRAM)
    options = CompileOptions(optimization_level=0, op_by_op=True)
    whole = xladev.compile(module, platform, CompileOptions(optimization_level=0))
    single = xladev.compile(module, platform, options)
    names = [executable.signature.name for executable in single.program.executables]
    assert sorted(n.rpartition(".")[2] for n in names) == ["go", "next", "q", "sum", "w", "y"]
    loop = next(t for t in single.program.entry.thunks if isinstance(t, While))
    body = single.program.procedures[loop.body]
    assert sum(isinstance(t, RunExecutable) for t in body.thunks) == 3
    x = np.arange(4, dtype=np.float32)
    with tracing() as trace:
        found = single(x).numpy()
    regions = [e.name for e in trace.events if e.category == "region"]
    assert len(regions) == 4 + 3 * 3 + 1 + 1  # condition, body, fusion, reduce
    np.testing.assert_allclose(found, whole(x).numpy(), rtol=1e-6)


def test_programs_op_by_op_are_kept_apart_from_others() -> None:
    plain, single = CompileOptions(), CompileOptions(op_by_op=True)
    assert plain.cache_key() != single.cache_key()
    assert CompileOptions().with_option("op-by-op") == single
    assert CompileOptions.from_json(single.to_json()) == single
