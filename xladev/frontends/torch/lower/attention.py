"""Scaled dot-product attention, in the form that xladev's attention kernels know."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.reductions import largest
from xladev.frontends.torch.lower.table import Family, NotLowered
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

ATTENTION = Family("attention", "Scaled dot-product attention.", wide=True)
_lowers = ATTENTION.lowers
_SAMPLE = "nn.functional.scaled_dot_product_attention"


def _scores(q: Value, k: Value, mask: Value | None, *, causal: bool, scale: float | None) -> Value:
    """[batch, heads, queries, keys]; minus infinity where a query may not see a key."""
    factor = 1 / math.sqrt(q.dims[-1]) if scale is None else scale
    scores = q.dot(k, (3,), (3,), 2) * factor
    if causal:
        scores = causal_mask(scores).where(scores, -math.inf)
    if mask is None:
        return scores
    if mask.dtype is dt.PRED:
        return mask.expand(scores.dims).where(scores, -math.inf)
    return scores + mask.cast(scores.dtype).expand(scores.dims)


def causal_mask(scores: Value) -> Value:
    """True where a key is not behind its query."""
    b, dims = scores.builder, scores.dims[-2:]
    return b.iota(dt.S32, dims, 0).ge(b.iota(dt.S32, dims, 1)).expand(scores.dims)


@_lowers("_scaled_dot_product_flash_attention_for_cpu.default", sample=_SAMPLE)
def _attention(
    b: TensorBuilder,
    out: Sequence[Shape],
    q: Value,
    k: Value,
    v: Value,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:
    """softmax(q k^T * scale + mask) v, and the logarithms of the sums of exponentials."""
    if dropout:
        raise NotLowered("attention with dropout")
    scores = _scores(q, k, attn_mask, causal=causal, scale=scale)
    top = largest(scores, (3,), keep=True)
    exponentials = (scores - top).exp()
    total = exponentials.sum((3,), keep=True)
    y = (exponentials / total).dot(v, (3,), (2,), 2)
    logsumexp = (top + total.log()).reshape(total.dims[:3])
    if logsumexp.dims != out[1].dims:
        logsumexp = logsumexp.transpose((0, 2, 1))
    return [y, logsumexp]


@_lowers("_scaled_dot_product_flash_attention_for_cpu_backward.default", sample=_SAMPLE)
def _attention_backward(
    b: TensorBuilder,
    out: Sequence[Shape],
    gradient: Value,
    q: Value,
    k: Value,
    v: Value,
    y: Value,
    logsumexp: Value,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:
    """Gradients of queries, keys and values; the weights are computed again."""
    factor = 1 / math.sqrt(q.dims[-1]) if scale is None else scale
    scores = _scores(q, k, attn_mask, causal=causal, scale=scale)
    sums = logsumexp.cast(scores.dtype)
    if sums.dims != scores.dims[:3]:
        sums = sums.transpose((0, 2, 1))
    weights = (scores - sums.reshape((*scores.dims[:3], 1))).exp()
    grad_v = weights.dot(gradient, (2,), (2,), 2)
    grad_weights = gradient.dot(v, (3,), (3,), 2)
    along = (gradient * operand(b, y, gradient.dtype, y.dims)).sum((3,), keep=True)
    grad_scores = weights * (grad_weights - along) * factor
    return [grad_scores.dot(k, (3,), (2,), 2), grad_scores.dot(q, (2,), (2,), 2), grad_v]
