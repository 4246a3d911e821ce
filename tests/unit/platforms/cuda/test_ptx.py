"""PTX of loop kernels: wide accesses, nothing external, no spills, intrinsics from the list."""

import re
import subprocess
import sys

import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
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


def test_operands_that_are_overwritten_are_not_read_through_the_constant_cache():
    from xladev.codegen.kernel_spec import KernelSpec
    from xladev.platforms.cuda.codegen.kernel import emit_thread_function

    computation = parse_module(chain("negate")).entry
    spec = KernelSpec("kernel", computation, frozenset({(0, 0)}))
    text, _ = nvptx.kernel_text(emit_thread_function(spec, nvptx.TRAITS))
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
