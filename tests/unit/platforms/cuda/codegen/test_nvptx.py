"""PTX of loop kernels: wide accesses, nothing external, no spills, intrinsics from the list."""

import re
import subprocess
import sys

import pytest

from tests.tools.sass_measure import collect
from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.elemental.vectors import VectorIndexMath
from xladev.compiler.options import CompileOptions
from xladev.errors import CompileError
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

SCALED = """
ENTRY e {
  x = f32[1000,1024] parameter(0)
  s = f32[1024] parameter(1)
  b = f32[1000,1024] broadcast(s), dimensions={1}
  u = f32[1000,1024] multiply(x, b)
  t = f32[1000,1024] tanh(u)
  l = f32[1000,1024] logistic(x)
  ROOT r = f32[1000,1024] multiply(t, l)
}"""


def chain(opcode: str, dtype: str = "f32") -> str:
    """One unary opcode on a vector."""
    return f"""
ENTRY e {{
  x = {dtype}[4096] parameter(0)
  ROOT r = {dtype}[4096] {opcode}(x)
}}"""


def test_a_fused_kernel_accesses_16_bytes_at_once():
    ptx = ptx_of(SCALED)
    accesses = re.findall(r"^\t((?:ld|st)\.global\S*)", ptx, re.MULTILINE)
    assert accesses == ["ld.global.nc.v4.b32", "ld.global.nc.v4.b32", "st.global.v4.b32"]
    assert ".func" not in ptx
    assert "local" not in ptx


def test_narrow_elements_fill_16_bytes_too():
    ptx = ptx_of(chain("negate", "bf16"))
    assert "ld.global.nc.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx


def test_gathered_rows_are_not_asked_for_ahead():
    """As the CPU asks for rows that no cache holds: the list of intrinsics has no prefetch."""
    ptx = ptx_of("""
ENTRY e {
  x = f32[9000,64] parameter(0)
  i = s32[70,1] parameter(1)
  ROOT g = f32[70,64] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
}""")
    assert "ld.global" in ptx and "prefetch" not in ptx


def test_operands_that_are_overwritten_are_not_read_through_the_constant_cache():
    from xladev.codegen.kernel_spec import KernelSpec
    from xladev.codegen.simt.kernel import emit_thread_function

    computation = parse_module(chain("negate")).entry
    spec = KernelSpec("kernel", computation, frozenset({(0, 0)}))
    text, _ = nvptx.kernel_text(emit_thread_function(spec, nvptx.TARGET))
    ptx = nvptx.ptx_of("kernel", text, "sm_90a")
    assert ".nc" not in ptx
    assert "ld.global.v4.b32" in ptx


MOVED = """
ENTRY e {
  x = f32[128,64] parameter(0)
  y = f32[128,32] parameter(1)
  z = f32[] constant(1)
  n = f32[128,64] negate(x)
  c = f32[128,96] concatenate(n, y), dimensions={1}
  p = f32[130,WIDTH] pad(c, z), padding=1_1x4_4INTERIOR
  ROOT s = f32[130,96] slice(p), slice={[0:130], [0:96]}
}"""


@pytest.mark.parametrize(
    ("width", "interior", "is_wide"), [(104, "", True), (389, "_3", False)], ids=["rows", "holes"]
)
def test_what_differs_from_vector_to_vector_is_moved_at_once(width, interior, is_wide, emulated):
    text = MOVED.replace("WIDTH", str(width)).replace("INTERIOR", interior)
    module = parse_module(text)
    assert compare_with_evaluator(module, random_arguments(module, 0), emulated) is None
    ptx = ptx_of(text)
    assert ("ld.global.nc.v4.b32" in ptx) == is_wide
    assert ("st.global.v4.b32" in ptx) == is_wide


SPREAD = """
ENTRY e {
  x = f32[3,4,6,14,2] parameter(0)
  s = f32[4,6] parameter(1)
  t = f32[3,14,2] parameter(2)
  u = f32[14,2] parameter(3)
  a = f32[3,4,6,14,2] broadcast(s), dimensions={1,2}
  b = f32[3,4,6,14,2] broadcast(t), dimensions={0,3,4}
  c = f32[3,4,6,14,2] broadcast(u), dimensions={3,4}
  y = f32[3,4,6,14,2] multiply(x, a)
  z = f32[3,4,6,14,2] add(y, b)
  ROOT r = f32[3,4,6,14,2] subtract(z, c)
}"""


def test_vectors_reach_over_dimensions_that_broadcasts_treat_alike(emulated):
    module = parse_module(SPREAD)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, random_arguments(module, 0), emulated, strict) is None
    ptx = ptx_of(SPREAD)
    assert ptx.count("ld.global.nc.v4.b32") == 3
    assert ptx.count("st.global.v4.b32") == 1


POOLED = """
reduction {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] {reduction}(a, b) }}
ENTRY e {{
  x = f32[3,17,10,{channels}] parameter(0)
  z = f32[] constant({start})
  ROOT r = f32[3,9,5,{channels}] reduce-window(x, z), to_apply=reduction,
    window={{size=1x3x2x1 stride=1x2x2x1 pad=0_0x1_1x0_0x0_0}}
}}"""


@pytest.mark.parametrize(("reduction", "start"), [("maximum", "-inf"), ("add", "0")])
@pytest.mark.parametrize(("channels", "is_wide"), [(8, True), (6, False)])
def test_windows_of_channels_are_reduced_in_vectors(reduction, start, channels, is_wide, emulated):
    text = POOLED.format(reduction=reduction, start=start, channels=channels)
    module = parse_module(text)
    assert compare_with_evaluator(module, random_arguments(module, 0), emulated) is None
    ptx = ptx_of(text)
    assert ("ld.global.nc.v4.b32" in ptx) == is_wide
    assert ("st.global.v4.b32" in ptx) == is_wide


def test_an_access_that_is_not_aligned_is_found(emulated, monkeypatch):
    monkeypatch.setattr(VectorIndexMath, "divisor", lambda self, x: self.lanes)
    text = """
ENTRY e {
  x = f32[64,65] parameter(0)
  s = f32[64,64] slice(x), slice={[0:64], [1:65]}
  ROOT r = f32[64,64] negate(s)
}"""
    module = parse_module(text)
    options = CompileOptions(strict=True, rng_seed=81)
    found = compare_with_evaluator(module, random_arguments(module, 0), emulated, options)
    assert "aligned to 16 bytes" in str(found)


UNARY = ("exponential", "log", "tanh", "logistic", "erf", "cosine", "tan", "cbrt", "rsqrt")


@pytest.mark.parametrize("opcode", UNARY)
def test_functions_assemble_without_spills(opcode, assembled):
    found = assembled(chain(opcode))
    assert found.spill_nbytes == 0
    assert found.registers <= 128


def test_the_fused_kernel_assembles(assembled):
    found = assembled(SCALED)
    assert (found.spill_nbytes, found.stack_nbytes, found.shared_nbytes) == (0, 0, 0)
    assert found.registers <= 48


@pytest.mark.parametrize("target", ["sm_80", "sm_100a"])
def test_other_targets_assemble(target, assembled):
    assert assembled(SCALED, target).spill_nbytes == 0


def test_an_intrinsic_that_is_not_on_the_list_is_refused():
    text = "declare double @llvm.pow.f64(double, double)"
    with pytest.raises(CompileError, match=r"llvm\.pow\.f64"):
        nvptx.check_intrinsics(text, "k")


def test_a_function_that_nobody_defines_is_refused():
    text = f"""
target triple = "{nvptx.TRIPLE}"
declare float @somewhere(float)
define ptx_kernel void @k(ptr %p) {{
  %v = call float @somewhere(float 1.0)
  store float %v, ptr %p
  ret void
}}"""
    with pytest.raises(CompileError, match="nobody defines"):
        nvptx.ptx_of("k", text, "sm_90a")


ALL_INTRINSICS = """
from xladev.codegen.llvm.intrinsics import INTRINSICS
from xladev.platforms.cuda.codegen import nvptx

def function(n, name, row, type_):
    mangled = {"float": "f32", "double": "f64"}.get(type_, type_)
    symbol, result = f"llvm.{name}.{mangled}", type_
    if row.result == "given":
        symbol, result = f"llvm.{name}.i32.{mangled}", "i32"
    if not nvptx._ALLOWED.fullmatch(symbol):
        return ""
    values = ", ".join(f"{type_} %v{k}" for k in range(row.arity))
    suffix = f", {row.suffix}" if row.suffix else ""
    types = ", ".join([type_] * row.arity + ([row.suffix.split()[0]] if row.suffix else []))
    loads = "".join(
        f"  %p{k} = getelementptr {type_}, ptr %p, i32 {k}\\n  %v{k} = load {type_}, ptr %p{k}\\n"
        for k in range(row.arity))
    return (f"declare {result} @{symbol}({types})\\n"
            f"define ptx_kernel void @k{n}(ptr %p) {{\\n{loads}"
            f"  %r = call {result} @{symbol}({values}{suffix})\\n"
            f"  store {result} %r, ptr %p\\n  ret void\\n}}\\n")

parts, n = [f'target triple = "{nvptx.TRIPLE}"\\n'], 0
for name, row in INTRINSICS.items():
    if row.result == "element":
        continue
    for type_ in sorted(row.elements - {"i1", "i2", "i4"}):
        n += 1
        parts.append(function(n, name, row, type_))
ptx = nvptx.ptx_of("all", "".join(parts), "sm_90a")
print(ptx.count(".entry"))
"""


def test_every_intrinsic_on_the_list_is_lowered():
    done = subprocess.run(
        [sys.executable, "-c", ALL_INTRINSICS], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 60


NORMALIZED = """
ENTRY e {{
  x = {dtype}[{dims}] parameter(0)
  s = {dtype}[32] parameter(1)
  o = {dtype}[32] parameter(2)
  m = {dtype}[32] parameter(3)
  v = {dtype}[32] parameter(4)
  ROOT r = {dtype}[{dims}] batch-norm-inference(x, s, o, m, v), epsilon=0.001, feature_index={index}
}}"""


@pytest.mark.parametrize(("dims", "index"), [("8,14,14,32", 3), ("8,32,12,14", 1)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_batch_norm_inference_reads_and_writes_16_bytes_at_once(dtype, dims, index):
    *_, kernel = collect(parse_module(NORMALIZED.format(dtype=dtype, dims=dims, index=index)))
    (code,) = kernel.codes
    large = [s for s in (*kernel.spec.operands, *kernel.spec.results) if s.rank == 4]
    assert len(large) == 2
    found = re.findall(r"^\t((?:ld|st)\.global\S*)", code.code.decode(), re.MULTILINE)
    assert found.count("st.global.v4.b32") == 1
    assert found.count("ld.global.nc.v4.b32") >= 1
    narrow = {a for a in found if ".v4." not in a}
    # one number for all of a feature may be read alone
    assert not narrow or (index == 1 and narrow == {"ld.global.nc.b32"})
