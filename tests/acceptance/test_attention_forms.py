"""Attention as libraries write it is one kernel, or the decisions say what was in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.tools.jax_child import require_modules, run_jax
from tests.tools.plugins import emulated_cuda
from xladev.client import load
from xladev.codegen.attention_search import attention_in_kernel
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.instrument import collect_decisions
from xladev.runtime.registry import current_registry
from xladev.testing.debug.forms import forms_of
from xladev.testing.differential import run_on_platform
from xladev.testing.random_inputs import random_arguments

WRITE = """
import pathlib, sys
import flax.linen as nn

FOLDER = pathlib.Path({folder!r})
B, T, S, N, D = 2, 40, 48, 4, 32
dot = jax.nn.dot_product_attention

def array(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)

def save(name, function, *arguments):
    made = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    (FOLDER / (name + ".pb")).write_bytes(made.as_serialized_hlo_module_proto())

def operands(heads=N, dtype=jnp.float32):
    return (array(B, T, N, D, dtype=dtype), *[array(B, S, heads, D, dtype=dtype)] * 2)

scores = array(B, N, T, S)
mask = array(B, N, T, S, dtype=jnp.bool_)
save("jax", dot, *operands())
save("jax_causal", lambda q, k, v: dot(q, k, v, is_causal=True), *operands())
save("jax_bias", lambda q, k, v, b: dot(q, k, v, bias=b), *operands(), scores)
save("jax_mask", lambda q, k, v, m: dot(q, k, v, mask=m), *operands(), mask)
save("jax_window", lambda q, k, v: dot(q, k, v, local_window_size=(8, 8)), *operands())
save("jax_groups", lambda q, k, v: dot(q, k, v, is_causal=True), *operands(2))
save("jax_one_head", dot, *operands(1))
narrow = jnp.bfloat16
save("jax_bf16", lambda q, k, v: dot(q, k, v, is_causal=True), *operands(N, narrow))
save("jax_groups_bf16", dot, *operands(2, narrow))

def minus_infinity(q, k, v, m):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(D)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(m, s, -jnp.inf)), v)

save("minus_infinity", minus_infinity, *operands(), mask)

def torch(q, k, v, m):
    "What torch 2.13 decomposes scaled_dot_product_attention into."
    a = (q * D**-0.25) @ (jnp.swapaxes(k, -1, -2) * D**-0.25)
    a = a + jnp.where(m, 0.0, -jnp.inf)
    hidden = jnp.all(a == -jnp.inf, axis=-1, keepdims=True)
    return jnp.where(hidden, 0.0, jax.nn.softmax(a, axis=-1)) @ v

heads = array(B, N, T, D), array(B, N, S, D), array(B, N, S, D)
save("torch", torch, *heads, array(T, S, dtype=jnp.bool_))
save("torch_causal", lambda q, k, v: torch(q, k, v, jnp.tril(jnp.ones((T, S), bool))), *heads)

def layer(dtype, masked):
    made = nn.MultiHeadDotProductAttention(num_heads=N, dtype=dtype, deterministic=True)
    x = array(B, T, 128, dtype=dtype)
    weights = jax.eval_shape(made.init, jax.random.key(0), x, x)
    m = nn.make_causal_mask(jnp.ones((B, T))) if masked else None
    return lambda w, x: made.apply(w, x, x, mask=m), weights, x

save("flax", *layer(jnp.float32, False))
save("flax_causal", *layer(jnp.float32, True))
save("flax_bf16", *layer(narrow, True))
"""
NAMES = (
    "jax", "jax_causal", "jax_bias", "jax_mask", "jax_window", "jax_groups", "jax_one_head",
    "jax_bf16", "jax_groups_bf16", "minus_infinity", "torch", "torch_causal", "flax",
    "flax_causal", "flax_bf16",
)  # fmt: skip
NARROW = "it has bf16, the kernel f32 alone"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of HLO, written by JAX."""
    require_modules("flax")
    folder: Path = tmp_path_factory.mktemp("attention")
    run_jax(WRITE.replace("{folder!r}", repr(str(folder))), "cpu")
    return folder


@pytest.fixture(scope="module", autouse=True)
def registry() -> Iterator[None]:
    """With ``cuda_emu``, installed or not."""
    with emulated_cuda():
        yield


def kernels(module: HloModule, platform: str) -> int:
    """How many kernels of a compiled program are an attention."""
    target = current_registry().platform(platform).compile_target(None)
    last = forms_of(module, target, CompileOptions())[-1].module
    fusions = [i for i in last.entry.instructions if i.opcode == "fusion"]
    return sum(attention_in_kernel(i["calls"].root) is not None for i in fusions)


@pytest.mark.long
@pytest.mark.parametrize("platform", ["cpu", "cuda_emu"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_one_kernel_and_right(name: str, platform: str, programs: Path) -> None:
    module = load(programs / f"{name}.pb")
    is_narrow = name.endswith("bf16")
    with collect_decisions() as told:
        count = kernels(module, platform)
    if is_narrow and platform == "cpu":
        assert count == 0
        assert any(NARROW in d.why for d in told), told
    else:
        assert count == 1
    arguments = random_arguments(module, 0)
    want = np.asarray(HloEvaluator().run(module, *arguments)).astype(np.float64)
    (found,) = run_on_platform(module, arguments, platform)
    unit = 2.0**-8 if is_narrow else 2.0**-20
    # the narrow layer of Flax rounds scores, weights and sums too, and multiplies by random weights
    slack = 16 if name == "flax_bf16" else 4
    error = np.abs(np.asarray(found).astype(np.float64) - want).max()
    assert error <= slack * unit * np.abs(want).max()
