"""Programs through library calls on ``cuda_emu``, against the evaluator."""

import pytest

from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.passes.default import default_pipeline
from xladev.platforms.cuda.libraries.calls import Cholesky, Fourier, Matmul, TriangularSolve
from xladev.platforms.cuda.libraries.custom_calls import call_of, is_library_call
from xladev.platforms.cuda.libraries.rules import LibraryCalls
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments


def dot(types, shapes, result, numbers):
    """A program of one dot."""
    lhs, rhs, out = types
    return f"""ENTRY e {{
  x = {lhs}[{shapes[0]}] parameter(0)
  y = {rhs}[{shapes[1]}] parameter(1)
  ROOT r = {out}[{result}] dot(x, y), {numbers}
}}"""


def summed(left, right, batch=""):
    """Dimension numbers; batch dimensions are the same on both sides."""
    found = f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    return found + (f", lhs_batch_dims={{{batch}}}, rhs_batch_dims={{{batch}}}" if batch else "")


PLAIN = summed(1, 0)

DOTS = {
    "f32": dot(("f32",) * 3, ("6,10", "10,7"), "6,7", PLAIN),
    "f64": dot(("f64",) * 3, ("6,10", "10,7"), "6,7", PLAIN),
    "c64": dot(("c64",) * 3, ("6,10", "10,7"), "6,7", PLAIN),
    "f16 into f32": dot(("f16", "f16", "f32"), ("6,10", "10,7"), "6,7", PLAIN),
    "both transposed, batched": dot(
        ("bf16", "bf16", "f32"), ("3,10,6", "3,7,10"), "3,6,7",
        summed("1", "2", "0"),
    ),
    "kept dimensions apart": dot(
        ("f32",) * 3, ("5,10,4", "10,7"), "5,4,7", summed("1", "0")
    ),
    "batch dimensions apart": dot(
        ("f32",) * 3, ("2,5,4,8", "2,6,4,8"), "2,4,5,6",
        summed("3", "3", "0,2"),
    ),
    "two dimensions summed over": dot(
        ("f32",) * 3, ("5,3,4", "3,4,7"), "5,7", summed("1,2", "0,1")
    ),
    "two, in the other order": dot(
        ("f32",) * 3, ("5,3,4", "4,3,7"), "5,7", summed("2,1", "0,1")
    ),
    "a row and a column": dot(("f32",) * 3, ("1,9", "9,1"), "1,1", PLAIN),
    "vectors": dot(("f32",) * 3, ("9", "9"), "", summed("0", "0")),
    "int8": dot(("s8", "s8", "s32"), ("8,12", "12,16"), "8,16", PLAIN),
    "fp8": dot(("f8e4m3fn", "f8e5m2", "f32"), ("16,32", "32,16"), "16,16", PLAIN),
}  # fmt: skip


def fft(kind, types, dims):
    return f"""ENTRY e {{
  x = {types[0]}[3,{dims[0]}] parameter(0)
  ROOT r = {types[1]}[3,{dims[1]}] fft(x), fft_type={kind}, fft_length={{4,10}}
}}"""


FFTS = {
    "FFT": fft("FFT", ("c64", "c64"), ("4,10", "4,10")),
    "IFFT": fft("IFFT", ("c128", "c128"), ("4,10", "4,10")),
    "RFFT": fft("RFFT", ("f32", "c64"), ("4,10", "4,6")),
    "IRFFT": fft("IRFFT", ("c64", "f32"), ("4,6", "4,10")),
}


def cholesky(dtype, lower):
    """Of a matrix times its transpose, plus the identity; and of one that has no factors."""
    return f"""ENTRY e {{
  x = {dtype}[2,5,5] parameter(0)
  y = {dtype}[2,5,5] dot(x, x), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  i = s32[2,5,5] iota(), iota_dimension=1
  j = s32[2,5,5] iota(), iota_dimension=2
  same = pred[2,5,5] compare(i, j), direction=EQ
  one = {dtype}[2,5,5] convert(same)
  z = {dtype}[2,5,5] add(y, one)
  a = {dtype}[2,5,5] cholesky(z), lower={lower}
  b = {dtype}[2,5,5] cholesky(x), lower={lower}
  ROOT t = ({dtype}[2,5,5], {dtype}[2,5,5]) tuple(a, b)
}}"""


def solve(left, lower, transpose, unit="false"):
    dims = "2,4,3" if left == "true" else "2,3,4"
    return f"""ENTRY e {{
  x = c128[2,4,4] parameter(0)
  i = s32[2,4,4] iota(), iota_dimension=1
  j = s32[2,4,4] iota(), iota_dimension=2
  same = pred[2,4,4] compare(i, j), direction=EQ
  one = c128[2,4,4] convert(same)
  s = c128[] constant((9, 1))
  sb = c128[2,4,4] broadcast(s), dimensions={{}}
  d = c128[2,4,4] multiply(one, sb)
  z = c128[2,4,4] add(x, d)
  b = c128[{dims}] parameter(1)
  ROOT r = c128[{dims}] triangular-solve(z, b), left_side={left}, lower={lower},
    transpose_a={transpose}, unit_diagonal={unit}
}}"""


SOLVERS = {
    **{
        f"{left} {lower} {transpose}": solve(left, lower, transpose)
        for left in ("true", "false")
        for lower in ("true", "false")
        for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    },
    "unit diagonal": solve("true", "true", "NO_TRANSPOSE", "true"),
}


def called(text, **options):
    """The library calls of a program, in order."""
    module = LibraryCalls(**options).run(default_pipeline().run(parse_module(text)))
    return [call_of(i) for i in module.entry.instructions if is_library_call(i)]


def check(text, emulated, kind):
    assert kind in {type(call) for call in called(text)}
    compare(text, emulated)


def compare(text, emulated, *settings):
    """A program with some options of the platform, against the evaluator."""
    module = parse_module(text)
    arguments = random_arguments(module, 0)
    options = CompileOptions(strict=True)
    for setting in settings:
        options = options.with_option(f"{emulated}.{setting}")
    assert compare_with_evaluator(module, arguments, emulated, options) is None


@pytest.mark.parametrize("name", DOTS)
def test_dots(name, emulated):
    check(DOTS[name], emulated, Matmul)


@pytest.mark.parametrize("name", FFTS)
def test_ffts(name, emulated):
    check(FFTS[name], emulated, Fourier)


@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_cholesky(dtype, lower, emulated):
    check(cholesky(dtype, lower), emulated, Cholesky)


@pytest.mark.parametrize("name", SOLVERS)
def test_triangular_solve(name, emulated):
    check(SOLVERS[name], emulated, TriangularSolve)


def layer(dtype, rest):
    """A product with a bias, and what follows."""
    return f"""ENTRY e {{
  x = {dtype}[4,6,10] parameter(0)
  w = {dtype}[10,7] parameter(1)
  b = {dtype}[7] parameter(2)
  d = {dtype}[4,6,7] dot(x, w), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}
  wide = {dtype}[4,6,7] broadcast(b), dimensions={{2}}
  {"".join(rest.replace("T[]", f"{dtype}[]").replace("T[", f"{dtype}["))}
}}"""


RELU = """a = T[4,6,7] add(d, wide)
  z = T[] constant(0)
  zeros = T[4,6,7] broadcast(z), dimensions={}
  ROOT r = T[4,6,7] maximum(zeros, a)"""
GELU = """a = T[4,6,7] add(wide, d)
  c1 = T[] constant(0.044715)
  c2 = T[] constant(0.79788456)
  c3 = T[] constant(1)
  c4 = T[] constant(0.5)
  b1 = T[4,6,7] broadcast(c1), dimensions={}
  b2 = T[4,6,7] broadcast(c2), dimensions={}
  b3 = T[4,6,7] broadcast(c3), dimensions={}
  b4 = T[4,6,7] broadcast(c4), dimensions={}
  q = T[4,6,7] multiply(a, a)
  u = T[4,6,7] multiply(q, a)
  v = T[4,6,7] multiply(b1, u)
  s = T[4,6,7] add(a, v)
  t = T[4,6,7] multiply(b2, s)
  h = T[4,6,7] tanh(t)
  o = T[4,6,7] add(b3, h)
  p = T[4,6,7] multiply(b4, o)
  ROOT r = T[4,6,7] multiply(a, p)"""
EPILOGUES = {
    "BIAS": "ROOT r = T[4,6,7] add(d, wide)",
    "RELU_BIAS": RELU,
    "GELU_BIAS": GELU,
    "RELU": RELU.replace("a = T[4,6,7] add(d, wide)", "a = T[4,6,7] copy(d)"),
}


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name, dtype, emulated):
    text = layer(dtype, EPILOGUES[name])
    assert [call.epilogue for call in called(text)] == [name]
    check(text, emulated, Matmul)


def test_near_misses_are_no_gelu():
    for old, new in (
        ("0.044715", "0.5"),
        ("0.79788456", "0.9"),
        ("multiply(q, a)", "multiply(q, q)"),
    ):
        assert [c.epilogue for c in called(layer("f32", GELU.replace(old, new)))] == ["BIAS"]


def test_a_product_that_others_read_has_no_epilogue():
    text = layer("f32", EPILOGUES["BIAS"].replace("ROOT r", "s")).replace(
        "\n}", "\n  ROOT t = (f32[4,6,7], f32[4,6,7]) tuple(s, d)\n}"
    )
    assert [c.epilogue for c in called(text)] == ["DEFAULT"]


def test_a_product_that_others_read_has_no_gelu(emulated):
    """As in training: computing it twice would cost more than the activation."""
    text = layer("f32", GELU.replace("ROOT r", "g")).replace(
        "\n}", "\n  ROOT both = (f32[4,6,7], f32[4,6,7]) tuple(g, a)\n}"
    )
    assert [c.epilogue for c in called(text)] == ["BIAS"]
    check(text, emulated, Matmul)


def test_tf32_only_where_it_is_allowed():
    text = DOTS["f32"]
    assert called(text)[0].compute == "32F"
    assert called(text, allow_tf32=True)[0].compute == "32F_FAST_TF32"
    asked = text.replace(PLAIN, PLAIN + ", algorithm=dot_tf32_tf32_f32")
    assert called(asked)[0].compute == "32F_FAST_TF32"


@pytest.mark.parametrize(
    "text",
    [
        dot(("s32",) * 3, ("6,10", "10,7"), "6,7", PLAIN),
        dot(("s8", "s8", "s32"), ("8,13", "13,16"), "8,16", PLAIN),
        dot(("f8e5m2", "f8e5m2", "f32"), ("16,32", "32,16"), "16,16", PLAIN),
        dot(("f32",) * 3, ("6,0", "0,7"), "6,7", PLAIN),
        dot(("f32",) * 3, ("6,10", "10,7"), "6,7", PLAIN + ", algorithm=dot_bf16_bf16_f32"),
    ],
)
def test_what_libraries_have_not_is_generated(text, emulated):
    assert called(text) == []
    module = parse_module(text)
    found = compare_with_evaluator(module, random_arguments(module, 0), emulated)
    assert found is None


def test_libraries_can_be_switched_off(emulated):
    options = CompileOptions(strict=True).with_option("cuda_emu.library_products=false")
    module = parse_module(DOTS["f32"])
    assert compare_with_evaluator(module, random_arguments(module, 0), emulated, options) is None
