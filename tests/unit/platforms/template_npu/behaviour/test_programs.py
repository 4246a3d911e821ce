"""Programs through the client on the template NPU: results against the evaluator, on the device."""

from dataclasses import replace

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.errors import UnsupportedError
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import plugin as cpu
from xladev.platforms.template_npu import plugin
from xladev.runtime.registry import Registry, using_registry
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

STRICT = CompileOptions().with_option("strict")


@pytest.fixture(autouse=True)
def npu_registered():
    """Only these two platforms, whatever is installed."""
    registry = Registry(find=lambda: ())
    registry.register(plugin.xladev_platforms())
    registry.register(cpu.xladev_platforms())
    with using_registry(registry):
        yield registry


def module(body: str, *computations: str):
    """A module of an entry's lines."""
    text = "\n".join(["HloModule m", *computations, "ENTRY e {", body, "}"])
    return parse_module(text)


ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
ADD_BF16 = ADD.replace("f32", "bf16").replace("add {", "add_bf16 {")
ADD_S32 = ADD.replace("f32", "s32").replace("add {", "add_s32 {")
MAX = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }"
OR = "either { a = pred[] parameter(0) b = pred[] parameter(1) ROOT c = pred[] or(a, b) }"
SET = "set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }"
ARGMAX = """argmax {
  a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GE
  x = f32[] select(more, a, b)  k = s32[] select(more, i, j)
  ROOT both = (f32[], s32[]) tuple(x, k) }"""
COMPUTATIONS = (ADD, ADD_BF16, ADD_S32, MAX, OR, SET, ARGMAX)

PROGRAMS = {
    "elementwise of many tiles": """
        x = f32[300,700] parameter(0)  b = f32[700] parameter(1)
        bb = f32[300,700] broadcast(b), dimensions={1}
        y = f32[300,700] multiply(x, bb)  ROOT z = f32[300,700] tanh(y)""",
    "two results, one of which may overwrite what the other reads": """
        x = f32[5000] parameter(0)  y = f32[5000] add(x, x)  z = f32[5000] multiply(x, y)
        ROOT t = (f32[5000], f32[5000]) tuple(y, z)""",
    "transposed, reversed, strided": """
        x = f32[7,9,11] parameter(0)  n = f32[7,9,11] negate(x)
        t = f32[11,7,9] transpose(n), dimensions={2,0,1}
        r = f32[11,7,9] reverse(t), dimensions={0,2}
        ROOT s = f32[4,3,5] slice(r), slice={[1:11:3], [0:6:2], [0:9:2]}""",
    "a reshape that strides cannot express": """
        x = f32[6,10] parameter(0)  t = f32[10,6] transpose(x), dimensions={1,0}
        e = f32[10,6] exponential(t)
        r = f32[4,15] reshape(e)  ROOT n = f32[4,15] negate(r)""",
    "six dimensions": """
        x = s8[2,3,4,5,2,3] parameter(0)
        t = s8[3,2,5,4,3,2] transpose(x), dimensions={5,4,3,2,1,0}
        ROOT n = s8[3,2,5,4,3,2] negate(t)""",
    "pad with holes and negative edges": """
        x = f32[5,6] parameter(0)  v = f32[] parameter(1)
        ROOT p = f32[12,3] pad(x, v), padding=2_1_1x-2_-1""",
    "negative padding within holes": """
        x = f32[5] parameter(0)  v = f32[] parameter(1)
        ROOT p = f32[9] pad(x, v), padding=-1_-3_2""",
    "concatenate of expressions": """
        x = bf16[3,4] parameter(0)  y = bf16[3,2] parameter(1)  a = bf16[3,4] abs(x)
        ROOT c = bf16[3,6] concatenate(a, y), dimensions={1}""",
    "iota and integers": """
        x = s32[40,30] parameter(0)  i = s32[40,30] iota(), iota_dimension=0
        q = s32[40,30] divide(x, i)  r = s32[40,30] remainder(x, i)
        s = s32[40,30] shift-left(q, i)  ROOT t = s32[40,30] xor(s, r)""",
    "iota in bf16": """ROOT i = bf16[300] iota(), iota_dimension=0""",
    "comparisons and choice": """
        x = f32[100] parameter(0)  y = f32[100] parameter(1)
        p = pred[100] compare(x, y), direction=LT
        t = pred[100] compare(x, y), direction=GE, type=TOTALORDER  q = pred[100] or(p, t)
        ROOT s = f32[100] select(q, x, y)""",
    "clamp between scalars": """
        x = f32[100] parameter(0)  l = f32[] constant(-0.5)  h = f32[] constant(0.5)
        ROOT c = f32[100] clamp(l, x, h)""",
    "conversions": """
        x = f32[100] parameter(0)  h = bf16[100] convert(x)  i = s8[100] convert(h)
        p = pred[100] convert(i)  ROOT u = u16[100] convert(p)""",
    "copies and barriers": """
        x = f32[3,4] parameter(0)  c = f32[3,4] copy(x)  t = (f32[3,4], f32[3,4]) tuple(c, x)
        o = (f32[3,4], f32[3,4]) opt-barrier(t)  a = f32[3,4] get-tuple-element(o), index=0
        b = f32[3,4] get-tuple-element(o), index=1  ROOT s = f32[3,4] add(a, b)""",
    "formats without a type": """
        x = f32[300] parameter(0)  h = f32[300] reduce-precision(x), exponent_bits=5,
          mantissa_bits=10
        b = bf16[300] convert(h)  ROOT r = bf16[300] reduce-precision(b), exponent_bits=4,
          mantissa_bits=3""",
    "wider and narrower bits": """
        x = f32[10,3] parameter(0)  n = f32[10,3] negate(x)  h = u16[10,3,2] bitcast-convert(n)
        i = u16[10,3,2] not(h)  ROOT w = s32[10,3] bitcast-convert(i)""",
    "iota of many tiles": "ROOT i = s32[90000] iota(), iota_dimension=0",
    "indices out of range": """
        x = f32[9,20] parameter(0)  i = s32[] constant(-3)  j = s32[] constant(15)
        d = f32[3,8] dynamic-slice(x, i, j), dynamic_slice_sizes={3,8}
        u = f32[9,20] dynamic-update-slice(x, d, j, i)
        k = s32[4] constant({-1, 8, 9, 200})
        g = f32[4,20] gather(u, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,20}
        ROOT s = f32[9,20] scatter(x, k, g), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "unsigned indices out of range": """
        x = f32[9] parameter(0)  k = u32[3] constant({3000000000, 8, 0})
        ROOT g = f32[3] gather(x, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1}""",
    "bits": "x = f32[10] parameter(0)  ROOT b = u32[10] bitcast-convert(x)",
    "sum of rows": """
        x = f32[70,900] parameter(0)  z = f32[] constant(1)
        ROOT r = f32[70] reduce(x, z), dimensions={1}, to_apply=add""",
    "sum of columns of a product": """
        x = f32[300,41] parameter(0)  y = f32[300,41] parameter(1)  m = f32[300,41] multiply(x, y)
        z = f32[] constant(0)  ROOT r = f32[41] reduce(m, z), dimensions={0}, to_apply=add""",
    "sum of all, more than one tile": """
        x = f32[100,1000] parameter(0)  z = f32[] constant(0)
        ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add""",
    "sums in bf16 are kept wide": """
        x = bf16[8,500] parameter(0)  z = bf16[] constant(0)
        ROOT r = bf16[8] reduce(x, z), dimensions={1}, to_apply=add_bf16""",
    "any of pred": """
        x = pred[9,40] parameter(0)  z = pred[] constant(false)
        ROOT r = pred[9] reduce(x, z), dimensions={1}, to_apply=either""",
    "reduce over nothing": """
        x = f32[4,0] parameter(0)  z = f32[] constant(3)
        ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=add""",
    "reduce over nothing, of all": """
        x = pred[0] parameter(0)  z = pred[] constant(true)
        ROOT r = pred[] reduce(x, z), dimensions={0}, to_apply=either""",
    "arg max": """
        x = f32[13,37] parameter(0)  i = s32[13,37] iota(), iota_dimension=1
        l = f32[] constant(-inf)  z = s32[] constant(0)
        ROOT r = (f32[13], s32[13]) reduce(x, i, l, z), dimensions={1}, to_apply=argmax""",
    "reduce of a broadcast": """
        x = f32[5] parameter(0)  b = f32[5,33] broadcast(x), dimensions={0}  z = f32[] constant(0)
        ROOT r = f32[5] reduce(b, z), dimensions={1}, to_apply=add""",
    "max pooling": """
        x = f32[2,9,9,3] parameter(0)  l = f32[] constant(-inf)
        ROOT r = f32[2,5,5,3] reduce-window(x, l), window={size=1x3x3x1 stride=1x2x2x1
          pad=0_0x1_1x1_1x0_0},
          to_apply=max""",
    "product of matrices with edges": """
        x = f32[37,50] parameter(0)  y = f32[50,23] parameter(1)
        ROOT d = f32[37,23] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "product of many blocks": """
        x = f32[200,300] parameter(0)  y = f32[300,250] parameter(1)
        ROOT d = f32[200,250] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "batches, several contracting dimensions": """
        x = f32[3,4,5,6] parameter(0)  y = f32[6,7,4,3] parameter(1)
        ROOT d = f32[3,5,7] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={3},
          lhs_contracting_dims={1,3}, rhs_contracting_dims={2,0}""",
    "product over nothing": """
        x = f32[3,0] parameter(0)  y = f32[0,4] parameter(1)
        ROOT d = f32[3,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "bytes into s32": """
        x = s8[20,70] parameter(0)  y = s8[70,20] parameter(1)
        ROOT d = s32[20,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "integers on the vector unit": """
        x = s32[20,30] parameter(0)  y = s32[30,10] parameter(1)
        ROOT d = s32[20,10] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "integers of many blocks": """
        x = s32[150,300] parameter(0)  y = s32[300,130] parameter(1)
        ROOT d = s32[150,130] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "pred on the vector unit": """
        x = pred[5,3] parameter(0)  y = pred[3,6] parameter(1)
        ROOT d = pred[5,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "dilated window": """
        x = f32[30] parameter(0)  z = f32[] constant(1)
        ROOT r = f32[26] reduce-window(x, z), window={size=3 pad=2_0 rhs_dilate=3}, to_apply=add""",
    "bf16": """
        x = bf16[20,30] parameter(0)  y = bf16[30,10] parameter(1)
        ROOT d = bf16[20,10] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "convolution": """
        x = f32[2,9,8,3] parameter(0)  k = f32[3,2,3,5] parameter(1)
        ROOT c = f32[2,5,9,5] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x1_1},
          dim_labels=b01f_01io->b01f""",
    "dilated, reversed convolution": """
        x = f32[2,3,8] parameter(0)  k = f32[5,3,3] parameter(1)
        ROOT c = f32[2,5,13] convolution(x, k), window={size=3 pad=1_1
          lhs_dilate=2 rhs_dilate=2 rhs_reversal=1},
          dim_labels=bf0_oi0->bf0""",
    "grouped convolution": """
        x = f32[2,7,6] parameter(0)  k = f32[3,2,9] parameter(1)
        ROOT c = f32[2,5,9] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f,
          feature_group_count=3""",
    "convolution in groups of images": """
        x = f32[6,7,4] parameter(0)  k = f32[3,4,9] parameter(1)
        ROOT c = f32[2,5,9] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f,
          batch_group_count=3""",
    "slice at run time": """
        x = f32[9,20] parameter(0)  i = s32[] parameter(1)  j = s32[] parameter(2)
        ROOT d = f32[3,8] dynamic-slice(x, i, j), dynamic_slice_sizes={3,8}""",
    "update at run time": """
        x = f32[9,20] parameter(0)  u = f32[3,8] parameter(1)  i = s32[] parameter(2)
        j = s32[] parameter(3)
        n = f32[3,8] negate(u)
        ROOT d = f32[9,20] dynamic-update-slice(x, n, i, j)""",
    "gather": """
        x = f32[10,6] parameter(0)  i = s32[7,1] parameter(1)
        ROOT g = f32[7,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}""",
    "scatter": """
        x = f32[10,6] parameter(0)  i = s32[7,1] parameter(1)  u = f32[7,6] parameter(2)
        ROOT g = f32[10,6] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "scatter that overwrites": """
        x = f32[10] parameter(0)  i = s32[4] parameter(1)  u = f32[4] parameter(2)
        ROOT g = f32[10] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, seed):
    program = module(PROGRAMS[name], *COMPUTATIONS)
    arguments = random_arguments(program, seed)
    assert compare_with_evaluator(program, arguments, "template_npu", STRICT) is None


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "nothing" in name])
def test_nothing_is_left_to_do_for_passes(name, seed):
    """What passes would fold away reaches the emitter too."""
    program = module(PROGRAMS[name], *COMPUTATIONS)
    options = replace(STRICT, optimization_level=0)
    arguments = random_arguments(program, seed)
    assert compare_with_evaluator(program, arguments, "template_npu", options) is None


def test_what_the_device_has_not_runs_on_the_host():
    program = module("""
        x = f32[4] parameter(0)  d = f64[4] convert(x)  e = f64[4] add(d, d)
        y = f32[4] convert(e)  ROOT r = f32[4] negate(y)""")
    compiled = compile(program, "template_npu")
    assert {f.reason for f in compiled.program.fallbacks} == {"f64 is not in hardware"}
    assert dict(compiled.program.instruction_counts)["template_npu"] == 1
    assert np.array_equal(np.asarray(compiled(np.ones(4, np.float32))), -2 * np.ones(4))
    with pytest.raises(UnsupportedError):
        compile(program, "template_npu", STRICT)


def test_a_tensor_of_many_times_the_scratchpad(seed):
    program = module("""
        x = f32[26,256,1024] parameter(0)  y = f32[26,256,1024] negate(x)
        z = f32[] constant(0)  ROOT r = f32[26,1024] reduce(y, z), dimensions={1}, to_apply=add
        """, ADD)  # fmt: skip
    x = np.random.default_rng(seed % 2**32).normal(size=(26, 256, 1024)).astype(np.float32)
    found = np.asarray(compile(program, "template_npu", STRICT)(x))
    assert np.allclose(found, -x.sum(axis=1), atol=1e-3)


def test_devices_and_stats(npu_registered):
    device = npu_registered.device("npu:1")
    program = module("x = f32[64] parameter(0)  ROOT y = f32[64] negate(x)")
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(np.asarray(compile(program, "npu:1")(x)), -x)
    assert device.memory_stats().nbytes_limit == 1 << 30
