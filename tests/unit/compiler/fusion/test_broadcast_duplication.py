"""Broadcasts of smaller arrays: in the kernels that read them, and nowhere twice."""

import numpy as np
import pytest

from xladev.compiler.fusion.broadcast_duplication import BroadcastDuplication
from xladev.compiler.fusion.instruction_fusion import Fusion
from xladev.compiler.fusion.row_fusion import RowFusion
from xladev.compiler.support import YES
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.pipeline import HloPassPipeline
from xladev.platforms.cpu.compiler import CpuCompiler

TWO_READERS = """HloModule m
ENTRY e {{ x = f32[8,40] parameter(0)  v = f32[{small}] parameter(1)  w = f32[40,40] parameter(2)
  b = f32[8,40] broadcast(v), dimensions={{{dims}}}
  p = f32[8,40] multiply(x, b)  d = f32[8,40] dot(p, w), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}}
  ROOT r = f32[8,40] {last} }}"""


def formed(module: HloModule) -> HloModule:
    passes = (BroadcastDuplication(), RowFusion(), Fusion(lambda producer, consumer: YES))
    tidy = (CommonSubexpressionElimination(),)
    return HloPassPipeline("kernels", passes, tidied_by=tidy).run(module)


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry.instructions if i.opcode != "parameter"]


def inside(i: HloInstruction) -> list[str]:
    return [x.opcode for x in i["calls"].instructions if x.opcode != "parameter"]


def two_readers(last: str, small: str = "40", dims: str = "1") -> HloModule:
    return parse_module(TWO_READERS.format(last=last, small=small, dims=dims))


def test_each_kernel_spreads_what_it_reads() -> None:
    fused = formed(two_readers("divide(d, b)"))
    assert opcodes(fused) == ["fusion", "dot", "fusion"]
    assert all("broadcast" in inside(i) for i in fused.entry.instructions if i.opcode == "fusion")


def test_kernels_of_rows_spread_too() -> None:
    module = parse_module("""HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[8,40] parameter(0)  v = f32[8] parameter(1)  w = f32[40,40] parameter(2)
      b = f32[8,40] broadcast(v), dimensions={0}  p = f32[8,40] multiply(x, b)
      d = f32[8,40] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      q = f32[8,40] multiply(d, b)  z = f32[] constant(0)
      s = f32[8] reduce(q, z), dimensions={1}, to_apply=add
      t = f32[8,40] broadcast(s), dimensions={0}  ROOT r = f32[8,40] subtract(q, t) }""")
    assert opcodes(formed(module)).count("broadcast") == 0
    assert sorted(opcodes(formed(module))) == ["dot", "fusion", "fusion"]


def test_a_reader_that_wants_memory_has_it_written_once() -> None:
    fused = formed(two_readers("dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"))
    assert opcodes(fused) == ["fusion", "dot", "dot"]
    module = parse_module("""HloModule m
    ENTRY e { x = f32[40,40] parameter(0)  v = f32[40] parameter(1)
      b = f32[40,40] broadcast(v), dimensions={1}
      d = f32[40,40] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      f = f32[40,40] dot(b, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[40,40] multiply(f, b) }""")
    fused = formed(module)
    assert opcodes(fused) == ["broadcast", "dot", "dot", "fusion"]


def test_what_ends_in_one_kernel_is_there_once() -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[8,40] parameter(0)  v = f32[40] parameter(1)
      b = f32[8,40] broadcast(v), dimensions={1}  p = f32[8,40] multiply(x, b)
      q = f32[8,40] add(p, b)  ROOT r = f32[8,40] divide(q, b) }""")
    fused = formed(module)
    assert opcodes(fused) == ["fusion"]
    assert sorted(inside(fused.entry.root)) == ["add", "broadcast", "divide", "multiply"]


def test_broadcasts_as_small_as_their_operand_are_no_matter() -> None:
    module = two_readers("divide(d, b)", small="8,40", dims="0,1")
    assert opcodes(formed(module)).count("broadcast") == 1


def test_a_broadcast_with_control_dependencies_stays() -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[8,40] parameter(0)  v = f32[40] parameter(1)  w = f32[40,40] parameter(2)
      a = f32[8,40] exponential(x)
      b = f32[8,40] broadcast(v), dimensions={1}, control-predecessors={a}
      p = f32[8,40] multiply(x, b)
      d = f32[8,40] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[8,40] divide(d, b) }""")
    assert opcodes(formed(module)).count("broadcast") == 1


@pytest.mark.parametrize("last", ["divide(d, b)", "add(b, d)"])
def test_values_stay(last: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    module = two_readers(last)
    given = [rng.standard_normal(p.shape.dims).astype(np.float32) for p in module.entry.parameters]
    np.testing.assert_array_equal(
        HloEvaluator().run(formed(module), *given), HloEvaluator().run(module, *given)
    )


def test_the_cpu_forms_its_kernels_so() -> None:
    fused = CpuCompiler().form_kernels(two_readers("divide(d, b)"))
    assert "broadcast" not in opcodes(fused)
