"""Softmaxes and normalisations are one kernel each: right for all lengths, held in registers."""

import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernel import emit_thread_function
from xladev.codegen.simt.reductions.row_programs import row_program_kind
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kinds import MACHINE, kind_of
from xladev.platforms.cuda.compiler import CudaCompiler
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

REDUCTIONS = """
greatest {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT r = {t}[] maximum(a, b) }}
total {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT r = {t}[] add(a, b) }}
"""

EXPONENTIALS = (
    REDUCTIONS
    + """
ENTRY e {{
  x = {t}[{full}] parameter(0)
  low = {t}[] constant(-inf)
  zero = {t}[] constant(0)
  m = {t}[{kept}] reduce(x, low), dimensions={{{reduced}}}, to_apply=greatest
  mb = {t}[{full}] broadcast(m), dimensions={{{outer}}}
  s = {t}[{full}] subtract(x, mb)
  p = {t}[{full}] exponential(s)
  n = {t}[{kept}] reduce(p, zero), dimensions={{{reduced}}}, to_apply=total"""
)
"""Exponentials of what rows are below their largest element, and the sums of these."""

SOFTMAX = (
    EXPONENTIALS
    + """
  nb = {t}[{full}] broadcast(n), dimensions={{{outer}}}
  ROOT r = {t}[{full}] divide(p, nb)
}}"""
)

LAYER_NORM = (
    REDUCTIONS
    + """
ENTRY e {{
  x = {t}[{full}] parameter(0)
  g = {t}[{row}] parameter(1)
  h = {t}[{row}] parameter(2)
  zero = {t}[] constant(0)
  count = {t}[] constant({length})
  tiny = {t}[] constant(0.01)
  counts = {t}[{kept}] broadcast(count), dimensions={{}}
  tinies = {t}[{kept}] broadcast(tiny), dimensions={{}}
  s = {t}[{kept}] reduce(x, zero), dimensions={{{reduced}}}, to_apply=total
  mean = {t}[{kept}] divide(s, counts)
  mb = {t}[{full}] broadcast(mean), dimensions={{{outer}}}
  c = {t}[{full}] subtract(x, mb)
  c2 = {t}[{full}] multiply(c, c)
  v = {t}[{kept}] reduce(c2, zero), dimensions={{{reduced}}}, to_apply=total
  var = {t}[{kept}] divide(v, counts)
  vt = {t}[{kept}] add(var, tinies)
  i = {t}[{kept}] rsqrt(vt)
  ib = {t}[{full}] broadcast(i), dimensions={{{outer}}}
  y = {t}[{full}] multiply(c, ib)
  gb = {t}[{full}] broadcast(g), dimensions={{{inner}}}
  hb = {t}[{full}] broadcast(h), dimensions={{{inner}}}
  z = {t}[{full}] multiply(y, gb)
  ROOT r = {t}[{full}] add(z, hb)
}}"""
)

LOG_SUM = (
    EXPONENTIALS
    + """
  l = {t}[{kept}] log(n)
  ROOT r = {t}[{kept}] add(l, m)
}}"""
)


def program(text: str, dims: tuple[int, ...], dtype: str = "f32", kept: int = 1) -> str:
    """A row program over the dimensions from number ``kept`` on."""
    rank, length = len(dims), 1
    for n in dims[kept:]:
        length *= n

    def listed(numbers: object) -> str:
        return ",".join(map(str, numbers))  # type: ignore[call-overload]

    return text.format(
        t=dtype,
        full=listed(dims),
        kept=listed(dims[:kept]),
        row=listed(dims[kept:]),
        outer=listed(range(kept)),
        inner=listed(range(kept, rank)),
        reduced=listed(range(kept, rank)),
        length=length,
    )


CASES = {
    "a warp, elements one by one": program(SOFTMAX, (9, 33)),
    "a warp, the last vectors outside": program(SOFTMAX, (9, 1000)),
    "a block": program(SOFTMAX, (3, 4096)),
    "a block of 512, the last outside": program(SOFTMAX, (2, 16000)),
    "narrow elements": program(SOFTMAX, (5, 1024), "bf16"),
    "narrow elements in a block": program(SOFTMAX, (1, 5000), "bf16"),
    "rows of two dimensions": program(SOFTMAX, (2, 3, 7, 40), "f16", kept=2),
    "f64": program(SOFTMAX, (2, 1501), "f64"),
    "layer norm": program(LAYER_NORM, (21, 256)),
    "layer norm in a block": program(LAYER_NORM, (3, 2, 2048), kept=2),
    "layer norm, narrow": program(LAYER_NORM, (5, 320), "bf16"),
    "one value for each row": program(LOG_SUM, (11, 128)),
    "one value for each block": program(LOG_SUM, (4, 3000)),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name, emulated):
    module = parse_module(CASES[name])
    assert row_program_kind(KernelSpec("k", module.entry), MACHINE) is not None
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize("name", ["narrow elements", "layer norm", "one value for each row"])
def test_each_is_one_kernel(name):
    formed = CudaCompiler().form_kernels(parse_module(CASES[name]))
    opcodes = [i.opcode for i in formed.entry.instructions]
    assert [o for o in opcodes if o not in ("parameter", "constant")] == ["fusion"]


@pytest.mark.parametrize("name", CASES)
def test_they_assemble_without_spills(name, assembled):
    found = assembled(CASES[name])
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 128


@pytest.mark.parametrize(
    ("name", "loads", "stores"),
    [("a block", 4, 4), ("narrow elements", 4, 4), ("layer norm", 6, 2)],
)
def test_memory_is_read_once_and_written_once(name, loads, stores):
    ptx = ptx_of(CASES[name])
    assert ptx.count("ld.global.nc.v4.b32") == loads
    assert ptx.count("st.global.v4.b32") == stores


def test_one_barrier_for_each_pass():
    ptx = ptx_of(CASES["a block"])
    assert ptx.count("bar.sync") + ptx.count("barrier.sync") == 2


def test_a_reduction_that_nothing_follows_is_no_row_program():
    entry = (
        "ENTRY e {{ x = {t}[{full}] parameter(0)\n z = {t}[] constant(0)\n"
        " ROOT r = {t}[{kept}] reduce(x, z), dimensions={{{reduced}}}, to_apply=total }}"
    )
    text = program(REDUCTIONS + entry, (4, 128))
    spec = KernelSpec("k", parse_module(text).entry)
    assert row_program_kind(spec, MACHINE) is None
    assert kind_of(spec).name == "row reduction"


def test_other_targets_take_them():
    spec = KernelSpec("k", parse_module(CASES["a block"]).entry)
    code, _ = nvptx.kernel_text(emit_thread_function(spec, nvptx.TARGET))
    assert ".target sm_80" in nvptx.ptx_of("k", code, "sm_80")
