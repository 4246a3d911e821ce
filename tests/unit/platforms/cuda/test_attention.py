"""Attention is one kernel: right for all shapes, masks and types, and for nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.compiler.attention_programs import (
    CAUSAL as CAUSAL_SCORES,
)
from tests.unit.compiler.attention_programs import (
    GROUPS,
    GROUPS_CAUSAL,
    GROUPS_RESULT,
    GROUPS_SOFTMAX,
    GUARDED,
    HEADS_APART,
    HEADS_INSIDE,
    MASKED,
    RESULT,
    RESULT_TURNED,
    SOFTMAX,
)
from tests.unit.compiler.attention_programs import (
    attention as shared_attention,
)
from xladev.codegen.attention_search import attention_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernel import emit_thread_function
from xladev.compiler.options import CompileOptions
from xladev.errors import ExecutionError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.attention import takes_attention
from xladev.platforms.cuda.codegen import nvptx, tensor_attention
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.compiler import CudaCompiler, CudaEmulationCompiler
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
    "bf16, tiles that end early": attention((2,), 70, 41, 16, 48, "bf16"),
    "f16, causal by -inf": attention((), 65, 130, 32, 16, "f16", CAUSAL, "-inf"),
    "bf16, wide heads": attention((2,), 80, 72, 128, 128, "bf16"),
    "bf16, a bias": attention((1, 2), 48, 96, 64, 64, "bf16", BIAS),
    "bf16, heads of odd sizes": attention((2,), 40, 40, 20, 24, "bf16"),
}  # fmt: skip


NARROW = [n for n in CASES if "f16" in n]
UNITS = {"bf16": 2.0**-8, "f16": 2.0**-11}


@pytest.mark.parametrize("name", [n for n in CASES if n not in NARROW])
def test_results(name, emulated):
    module = parse_module(CASES[name])
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


def beyond_rounding(name: str, platform: str, seed: int = 0) -> float:
    """How far results are off, in units of what rounding explains; NaN must be where HLO has it.

    A result is rounded once, and so is each weight: both by half of the last place.
    """
    module = parse_module(CASES[name])
    arguments = random_arguments(module, 0)
    options = CompileOptions(strict=True, rng_seed=seed)
    (found,) = run_on_platform(module, arguments, platform, options)
    q, k, v, *bias = (np.asarray(a, np.float64) for a in arguments)
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    seen = np.tri(*scores.shape[-2:]) > 0
    if "compare" in CASES[name]:
        scores = np.where(seen, scores, -np.inf)
    else:
        scores = scores + bias[0] if bias else -scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    unit = UNITS[name.split(",")[0]]
    slack = unit * (np.abs(weights @ v) + weights @ np.abs(v)) + 2.0**-18 * (weights @ np.abs(v))
    return float((np.abs(found.astype(np.float64) - weights @ v) / slack).max())


@pytest.mark.long
@pytest.mark.parametrize("name", NARROW)
def test_narrow_results_are_off_by_rounding_alone(name, emulated):
    assert beyond_rounding(name, emulated) <= 1


@pytest.mark.parametrize("name", CASES)
def test_each_is_one_kernel(name):
    compiler = CudaEmulationCompiler()
    module = compiler.pipeline(CompileOptions()).run(parse_module(CASES[name]))
    (fusion,) = [
        i
        for i in compiler.form_kernels(module).entry.instructions
        if i.opcode not in ("parameter", "constant")
    ]
    on_tensor_cores = name in NARROW and "odd" not in name
    wanted = "tensor attention" if on_tensor_cores else "attention"
    assert kind_of(KernelSpec("k", fusion["calls"])).name == wanted


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
    found = attention_of(parse_module(attention((1,), 32, 32, 256, 256)).entry.root)
    assert found is not None
    assert "256 exceed the shared memory" in takes_attention(found).reason


def test_a_row_that_sees_nothing_is_nan_as_in_hlo(emulated):
    text = CASES["causal by -inf, from the first tile on"].replace("GE", "GT")
    module = parse_module(text)
    (found,) = run_on_platform(module, random_arguments(module, 0), emulated)
    assert np.isnan(found[:, 0]).all()
    assert not np.isnan(found[:, 1:]).any()


HIDDEN = CAUSAL_SCORES.replace("GE", "GT")
WRITTEN = {
    "heads inside": (HEADS_INSIDE, MASKED, SOFTMAX, RESULT_TURNED),
    "groups": (GROUPS, GROUPS_CAUSAL, GROUPS_SOFTMAX, GROUPS_RESULT),
    "a guard": (HEADS_APART, HIDDEN, GUARDED, RESULT),
}


@pytest.mark.long
@pytest.mark.parametrize("narrow", ["", "bf16"])
@pytest.mark.parametrize("name", WRITTEN)
def test_all_ways_of_writing_it_are_one_kernel(name, narrow, emulated):
    module = shared_attention(*WRITTEN[name], narrow=narrow, D=32, W=48)
    compiler = CudaEmulationCompiler()
    formed = compiler.form_kernels(compiler.pipeline(CompileOptions()).run(module))
    assert [i.opcode for i in formed.entry.instructions if i.operands] == ["fusion"]
    arguments = random_arguments(module, 0)
    if narrow:
        (found,) = run_on_platform(module, arguments, emulated)
        want = HloEvaluator().run(module, *arguments)
        np.testing.assert_allclose(
            found.astype(np.float32), np.asarray(want).astype(np.float32), rtol=0.02, atol=0.02
        )
    else:
        assert compare_with_evaluator(module, arguments, emulated) is None


@pytest.mark.parametrize("dims", [(256, 256, 64, 64), (256, 256, 128, 128)])
@pytest.mark.parametrize(("dtype", "most"), [("f32", 128), ("bf16", 168), ("f16", 168)])
def test_they_assemble_without_spills(dims, dtype, most):
    ptxas = ptxas_path()
    if ptxas is None:
        pytest.skip("no ptxas: install the CUDA toolkit or nvidia-cuda-nvcc")
    spec = KernelSpec("k", parse_module(attention((4,), *dims, dtype, CAUSAL)).entry)
    code, _ = nvptx.kernel_text(emit_thread_function(spec, nvptx.TARGET))
    ptx = nvptx.ptx_of("k", code, "sm_90a")
    found = assemble(ptx, "sm_90a", ptxas)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    # two blocks of 256 threads on a multiprocessor, or three of 128
    assert found.registers <= most
    assert found.shared_nbytes <= 48 << 10
    if dtype != "f32":
        assert f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32" in ptx
        assert "ld.global.nc.v4.b32" in ptx
        assert "st.shared.v4.b32" in ptx


def test_older_targets_have_no_tensor_cores():
    spec = KernelSpec("k", parse_module(CASES["bf16"]).entry)
    for target, wanted in (("sm_75", False), ("sm_80", True)):
        code = CudaCompiler().lower(spec, CompileOptions(target=target))
        assert (b"mma.sync" in code.code) == wanted


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q = bf16[4,64,32]", "q = f16[4,64,32]"),
        ("c = bf16[4,64,64] convert(w)", "c = f32[4,64,64] convert(w)"),
        ("k = bf16[4,64,32]{2,1,0}", "k = bf16[4,64,32]{1,2,0}"),
    ],
    ids=["mixed types", "weights in f32", "keys by columns"],
)
def test_others_are_computed_without_tensor_cores(old, new):
    text = attention((4,), 64, 64, 32, 32, "bf16").replace(
        "k = bf16[4,64,32]", "k = bf16[4,64,32]{2,1,0}"
    )
    assert old in text
    for module, wanted in ((text, "tensor attention"), (text.replace(old, new), "attention")):
        assert kind_of(KernelSpec("k", parse_module(module).entry)).name == wanted


def test_a_missing_barrier_is_found(emulated, monkeypatch):
    monkeypatch.setattr(tensor_attention, "barrier", lambda b: None)
    with pytest.raises(ExecutionError, match="race"):
        beyond_rounding("bf16", emulated, 11)


def test_another_row_of_a_fragment_is_found(emulated, monkeypatch):
    device = nvptx.emulated_target()
    table = device.primitives
    wrong = {n: d.replace("%lane, 2\n", "%lane, 3\n") for n, d in table.items() if ".mma." in n}
    planted = replace(device, primitives={**table, **wrong})
    monkeypatch.setattr(nvptx, "emulated_target", lambda: planted)
    assert beyond_rounding("bf16", emulated, 12) > 1


def test_a_row_that_sees_nothing_is_nan_on_tensor_cores(emulated):
    module = parse_module(CASES["f16, causal by -inf"].replace("GE", "GT"))
    (found,) = run_on_platform(module, random_arguments(module, 0), emulated)
    assert np.isnan(found[0].astype(np.float32)).all()
    assert not np.isnan(found[1:].astype(np.float32)).any()
