"""Row-major modules: what bitcasts become, and which of them have no such form."""

import numpy as np
import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.description import DeviceDescription
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.layout import with_row_major_layouts
from xladev.compiler.support import YES, Support
from xladev.errors import UnsupportedError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module

TRANSPOSING = """HloModule m
ENTRY e { x = f32[4,6]{0,1} parameter(0)
  ROOT y = f32[6,4]{1,0} bitcast(x) }"""
TILED = """HloModule m
ENTRY e { x = f32[4,6]{LAYOUT} parameter(0)
  ROOT y = f32[24]{0} bitcast(x) }"""


def test_a_bitcast_between_orders_is_a_transpose() -> None:
    module, x = parse_module(TRANSPOSING), np.arange(24, dtype=np.float32).reshape(4, 6)
    changed = with_row_major_layouts(module)
    assert "bitcast" not in {i.opcode for i in changed.entry.instructions}
    got, want = (HloEvaluator().run(m, x) for m in (changed, module))
    assert np.array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("layout", ["1,0:T(2,3)", "0,1:T(2,2)"])
def test_a_bitcast_of_tiles_is_refused_and_says_what_to_answer(layout: str) -> None:
    module = parse_module(TILED.replace("LAYOUT", layout))
    with pytest.raises(UnsupportedError, match="no bitcast of the layout") as caught:
        with_row_major_layouts(module)
    assert "bitcast_support" in str(caught.value)


COLUMNS = """HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[3,2]{0,1}}
ENTRY e { x = f32[2,3]{0,1} parameter(0)
  n = f32[2,3]{0,1} negate(x)
  k = f32[2,3]{0,1} constant({{1,2,3},{4,5,6}})
  s = f32[2,3]{0,1} add(n, k)
  ROOT y = f32[3,2]{0,1} transpose(s), dimensions={1,0} }"""


def test_kernels_are_row_major_whatever_the_program_says() -> None:
    seen: list[str] = []

    class Recorder(KernelCompiler):
        def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
            return YES

        def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
            within = [i.shape for i in spec.computation.instructions]
            seen.extend(map(str, (*spec.operands, *spec.results, *within)))
            return KernelCode(spec.name, b"")

    made = Recorder().compile(parse_module(COLUMNS), CompileOptions())
    assert seen and {shape.partition("{")[2] for shape in seen} == {"1,0}"}
    layouts = [*made.signature.parameters, made.signature.result]
    assert {shape.minor_to_major for shape in layouts} == {(1, 0)}
