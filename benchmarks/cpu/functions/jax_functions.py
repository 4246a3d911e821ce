"""Each kind of row in JAX: what XLA and xladev run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.cpu.functions import jax_fourier, jax_linalg, jax_science
from benchmarks.cpu.functions.inputs import RESNET18, Parameters

Function = Callable[..., Any]


def _gemm(p: Parameters) -> Function:
    """Sums of int8 in int32; bf16 gives bf16."""
    integral = p.get("dtype") == "int8"
    kind = jnp.int32 if integral else None
    return lambda a, b: jnp.matmul(a, b, preferred_element_type=kind)


def _layernorm(x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def _conv_nhwc(x: Any, w: Any, stride: int = 1, groups: int = 1, padding: Any = "SAME") -> Any:
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups,
    )  # fmt: skip


def _conv(p: Parameters) -> Function:
    pad = (p["kernel"] // 2,) * 2
    return partial(
        _conv_nhwc, stride=p.get("stride", 1), groups=p.get("groups", 1), padding=(pad, pad)
    )


def _attend(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def _lstm_cell(x: Any, h: Any, c: Any, wx: Any, wh: Any, bias: Any) -> Any:
    i, f, g, o = jnp.split(x @ wx + h @ wh + bias, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _bi_lstm(xs: Any, h: Any, c: Any, *weights: Any) -> Any:
    def over(parts: Any, *, reverse: bool) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = _lstm_cell(x, *state, *parts)
            return (h, c), h

        return lax.scan(step, (h, c), xs, reverse=reverse)[1]

    return jnp.concatenate(
        [over(weights[:3], reverse=False), over(weights[3:], reverse=True)], axis=-1
    )


def _batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    variance = ((x - mean) ** 2).mean(axes)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift, mean, variance


def _cross_entropy(logits: Any, labels: Any) -> Any:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen.mean()


def _mlp_loss(weights: Any, x: Any, labels: Any) -> Any:
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    for w, b in pairs[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = pairs[-1]
    return _cross_entropy(x @ w + b, labels)


def _step(loss: Function) -> Function:
    """One step of gradient descent: the loss, and the new weights."""

    def run(x: Any, labels: Any, *weights: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x, labels)
        return value, *(w - 0.01 * g for w, g in zip(weights, gradients, strict=True))

    return run


def _block(p: Parameters) -> Function:
    heads = p["heads"]

    def split(x: Any) -> Any:
        b, n, w = x.shape
        return x.reshape(b, n, heads, w // heads).transpose(0, 2, 1, 3)

    def run(
        x: Any, s1: Any, b1: Any, qkv: Any, out: Any, s2: Any, b2: Any, up: Any, down: Any
    ) -> Any:
        parts = jnp.split(_layernorm(x, s1, b1) @ qkv, 3, axis=-1)
        mixed = _attend(*map(split, parts)).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + mixed @ out
        return x + jax.nn.gelu(_layernorm(x, s2, b2) @ up) @ down

    return run


def _block_backward(p: Parameters) -> Function:
    forward = _block(p)

    def run(*arguments: Any) -> Any:
        every = tuple(range(len(arguments)))
        return jax.grad(lambda *a: (forward(*a) ** 2).mean(), every)(*arguments)

    return run


def _resnet18(x: Any, weights: Any) -> Any:
    left = iter(weights)

    def conv(x: Any, stride: int) -> Any:
        w, scale, shift = next(left), next(left), next(left)
        pad = (w.shape[0] // 2,) * 2
        return _conv_nhwc(x, w, stride, padding=(pad, pad)) * scale + shift

    x = jax.nn.relu(conv(x, 2))
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
    for _, _, stride in RESNET18:
        y = conv(jax.nn.relu(conv(x, stride)), 1)
        x = jax.nn.relu(y + (conv(x, stride) if stride > 1 else x))
    return x.mean((1, 2)) @ next(left)


def _resnet18_loss(weights: Any, x: Any, labels: Any) -> Any:
    return _cross_entropy(_resnet18(x, weights), labels)


def _window(p: Parameters) -> Function:
    """Windows of any size, one for each place."""
    combine, start = {"add": (lax.add, 0.0), "max": (lax.max, -jnp.inf)}[p["opcode"]]
    pads = tuple(zip(p["low"], p.get("high", [0] * len(p["low"])), strict=True))
    ones = (1,) * len(pads)
    return lambda x: lax.reduce_window(x, start, combine, tuple(p["sizes"]), ones, pads)


FUNCTIONS: Mapping[str, Callable[[Parameters], Function]] = {
    "add_one": lambda p: lambda x: x + 1.0,
    "gemm": _gemm,
    "softmax": lambda p: partial(jax.nn.softmax, axis=-1),
    "layernorm": lambda p: _layernorm,
    "gelu": lambda p: jax.nn.gelu,
    "sum": lambda p: lambda x: x.sum(p.get("axis")),
    "transpose": lambda p: lambda x: x.transpose(p["permutation"]),
    "gather": lambda p: lambda x, i: x.at[i].get(mode="promise_in_bounds"),
    "scatter_add": lambda p: lambda x, i, u: x.at[i].add(u, mode="promise_in_bounds"),
    "cumsum": lambda p: lambda x: jnp.cumsum(x, p["axis"]),
    "window": _window,
    "sort": lambda p: lambda x: jnp.sort(x, -1),
    "top_k": lambda p: lambda x: lax.top_k(x, p["k"]),
    "conv": _conv,
    "attention": lambda p: _attend,
    "lstm_cell": lambda p: _lstm_cell,
    "bi_lstm": lambda p: _bi_lstm,
    "batch_norm": lambda p: _batch_norm,
    "mlp_step": lambda p: _step(_mlp_loss),
    "block_forward": _block,
    "block_backward": _block_backward,
    "resnet18_forward": lambda p: lambda x, _, *weights: _resnet18(x, weights),
    "resnet18_step": lambda p: _step(_resnet18_loss),
    **jax_fourier.FUNCTIONS,
    **jax_linalg.FUNCTIONS,
    **jax_science.FUNCTIONS,
}
"""By kind of row: from its parameters to a function of its arguments."""
