"""Attention is one kernel: right for all shapes, masks and types, and for nothing else."""

import numpy as np
import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.attention import attention_of
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kernel import emit_thread_function
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.compiler import CudaEmulationCompiler
from xladev.platforms.cuda.toolkit import assemble, ptxas_path
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.random_inputs import random_arguments

CAUSAL = """
  rows = s32[{s}] iota(), iota_dimension={qd}
  columns = s32[{s}] iota(), iota_dimension={kd}
  seen = pred[{s}] compare(rows, columns), direction=GE
  never = f32[] constant({never})
  nevers = f32[{s}] broadcast(never), dimensions={{}}
  x = f32[{s}] select(seen, scaled, nevers)
"""
BIAS = """
  bias = f32[{queries},{keys}] parameter(3)
  biases = f32[{s}] broadcast(bias), dimensions={{{qd},{kd}}}
  x = f32[{s}] add(scaled, biases)
"""
PLAIN = "  x = f32[{s}] negate(scaled)\n"


def attention(
    batch: tuple[int, ...],
    queries: int,
    keys: int,
    depth: int,
    width: int,
    dtype: str = "f32",
    mask: str = PLAIN,
    never: str = "-1e30",
) -> str:
    """Attention as JAX writes it: keys along the rows of k, scores in f32."""
    n = len(batch)

    def shape(*dims: int) -> str:
        return ",".join(map(str, (*batch, *dims)))

    axes = ",".join(map(str, range(n)))
    s, kept = shape(queries, keys), ",".join(map(str, range(n + 1)))
    names = {"s": s, "qd": n, "kd": n + 1, "queries": queries, "keys": keys, "never": never}
    both = f"lhs_batch_dims={{{axes}}}, rhs_batch_dims={{{axes}}}"
    return f"""
greatest {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }}
total {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  q = {dtype}[{shape(queries, depth)}] parameter(0)
  k = {dtype}[{shape(keys, depth)}] parameter(1)
  v = {dtype}[{shape(keys, width)}] parameter(2)
  d = f32[{s}] dot(q, k), {both}, lhs_contracting_dims={{{n + 1}}}, rhs_contracting_dims={{{n + 1}}}
  scale = f32[] constant({depth**-0.5})
  scales = f32[{s}] broadcast(scale), dimensions={{}}
  scaled = f32[{s}] multiply(d, scales)
{mask.format(**names)}
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[{shape(queries)}] reduce(x, low), dimensions={{{n + 1}}}, to_apply=greatest
  mb = f32[{s}] broadcast(m), dimensions={{{kept}}}
  y = f32[{s}] subtract(x, mb)
  p = f32[{s}] exponential(y)
  t = f32[{shape(queries)}] reduce(p, zero), dimensions={{{n + 1}}}, to_apply=total
  tb = f32[{s}] broadcast(t), dimensions={{{kept}}}
  w = f32[{s}] divide(p, tb)
  c = {dtype}[{s}] convert(w)
  ROOT o = {dtype}[{shape(queries, width)}] dot(c, v), {both},
    lhs_contracting_dims={{{n + 1}}}, rhs_contracting_dims={{{n}}}
}}"""


CASES = {
    "two heads": attention((1, 2), 64, 64, 32, 32),
    "keys that fill no tile": attention((2,), 17, 41, 20, 24),
    "wide values": attention((2,), 9, 40, 16, 100),
    "no batch": attention((), 33, 70, 64, 64),
    "causal": attention((1, 2), 70, 70, 32, 32, mask=CAUSAL),
    "causal by -inf, from the first tile on": attention((2,), 40, 80, 16, 16, mask=CAUSAL,
                                                       never="-inf"),
    "a bias": attention((2,), 24, 50, 32, 32, mask=BIAS),
    "bf16": attention((1, 2), 64, 96, 64, 64, "bf16", CAUSAL),
    "f16": attention((2,), 40, 40, 32, 32, "f16"),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("bf16", "f16")])
def test_results(name, emulated):
    module = parse_module(CASES[name])
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize(("name", "unit"), [("bf16", 2.0**-8), ("f16", 2.0**-11)])
def test_narrow_results_are_rounded_once(name, unit, emulated):
    module = parse_module(CASES[name])
    arguments = random_arguments(module, 0)
    (found,) = run_on_platform(module, arguments, emulated, CompileOptions(strict=True))
    q, k, v = (np.asarray(a, np.float64) for a in arguments)
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    seen = np.tri(*scores.shape[-2:]) > 0
    scores = np.where(seen, scores, -1e30) if name == "bf16" else -scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    want = weights @ v
    slack = 2.0**-18 * (weights @ np.abs(v))
    assert (np.abs(found.astype(np.float64) - want) <= unit * np.abs(want) + slack).all()


@pytest.mark.parametrize("name", CASES)
def test_each_is_one_kernel(name):
    compiler = CudaEmulationCompiler()
    module = compiler.pipeline(CompileOptions()).run(parse_module(CASES[name]))
    (fusion,) = [
        i
        for i in compiler.form_kernels(module).entry.instructions
        if i.opcode not in ("parameter", "constant")
    ]
    assert kind_of(KernelSpec("k", fusion["calls"])).name == "attention"


def test_scores_that_are_wanted_elsewhere_are_computed_for_both():
    text = CASES["two heads"].replace("ROOT o", "o").rstrip().removesuffix("}")
    text += "  ROOT both = (f32[1,2,64,32], f32[1,2,64,64]) tuple(o, w)\n}"
    compiler = CudaEmulationCompiler()
    module = compiler.pipeline(CompileOptions()).run(parse_module(text))
    calls = [i for i in module.entry.instructions if i.opcode == "custom-call"]
    assert len(calls) == 2  # both products are the library's


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant(-inf)", "constant(0)"),
        ("constant(0)", "constant(1)"),
        ("exponential(y)", "tanh(y)"),
        ("subtract(x, mb)", "subtract(mb, x)"),
        ("maximum(a, b)", "minimum(a, b)"),
    ],
)
def test_what_is_no_softmax_is_no_attention(old, new):
    text = CASES["two heads"]
    assert attention_of(parse_module(text).entry.root) is not None
    assert attention_of(parse_module(text.replace(old, new)).entry.root) is None


def test_heads_that_do_not_fit_into_shared_memory_stay_apart():
    assert attention_of(parse_module(attention((1,), 32, 32, 256, 256)).entry.root) is None


def test_a_row_that_sees_nothing_is_nan_as_in_hlo(emulated):
    text = CASES["causal by -inf, from the first tile on"].replace("GE", "GT")
    module = parse_module(text)
    (found,) = run_on_platform(module, random_arguments(module, 0), emulated)
    assert np.isnan(found[:, 0]).all()
    assert not np.isnan(found[:, 1:]).any()


@pytest.mark.parametrize("dims", [(256, 256, 64, 64), (256, 256, 128, 128)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_they_assemble_without_spills(dims, dtype):
    ptxas = ptxas_path()
    if ptxas is None:
        pytest.skip("no ptxas: install the CUDA toolkit or nvidia-cuda-nvcc")
    spec = KernelSpec("k", parse_module(attention((4,), *dims, dtype, CAUSAL)).entry)
    code, _ = nvptx.kernel_text(emit_thread_function(spec, nvptx.TRAITS))
    found = assemble(nvptx.ptx_of("k", code, "sm_90a"), "sm_90a", ptxas)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 128  # two blocks of 256 threads on a multiprocessor
    assert found.shared_nbytes <= 48 << 10
