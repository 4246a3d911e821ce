"""Cross entropy of a linear layer in chunks, of which torch makes operators that it keeps whole.

Taken apart into operators that have lowerings, chunk by chunk, so that logits of one chunk alone
need be in memory. Source: the equations of torch's documentation of
`torch.nn.functional.linear_cross_entropy` and `cross_entropy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.modules.linear_cross_entropy  # registers the operators
from torch import Tensor

MOST_CHUNKS = 64
"""With more of them the operator stays whole, and torch runs it: programs would be long."""


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


def _logits(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    made = x @ matrix.T
    return made if bias is None else made + bias


def _shares(target: Tensor, weight: Tensor | None, ignored: int, to: torch.dtype) -> Tensor:
    """[batch]: the weight of each element's class; zero where it is ignored."""
    is_used = target != ignored
    if weight is None:
        return is_used.to(to)
    return torch.where(is_used, weight.to(to)[torch.where(is_used, target, 0)], 0)


def _places(target: Tensor, ignored: int) -> Tensor:
    return torch.where(target != ignored, target, 0)[:, None]


def chunked(
    x: Tensor, matrix: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None,
    reduction: str, ignored: int, smoothing: float, size: int, policy: str,
    accumulated: torch.dtype, retained: bool, *wanted: bool,
) -> Any:  # fmt: skip
    """The loss, and its gradients by input, matrix and bias where they are wanted."""
    count = x.shape[0]
    if smoothing or count > MOST_CHUNKS * size or not count:
        return NotImplemented
    wide_x, wide_matrix = x.to(accumulated), matrix.to(accumulated)
    wide_bias = None if bias is None else bias.to(accumulated)
    shares = _shares(target, weight, ignored, accumulated)
    if reduction == "mean":
        shares = shares / shares.sum()
    loss = torch.zeros((), dtype=accumulated)
    by_x, by_matrix, by_bias = (
        [],
        torch.zeros_like(wide_matrix),
        torch.zeros_like(wide_matrix[:, 0]),
    )
    for part in _chunks(count, size):
        logs = _logits(wide_x[part], wide_matrix, wide_bias).log_softmax(1)
        at, share = _places(target[part], ignored), shares[part]
        loss = loss - (logs.gather(1, at)[:, 0] * share).sum()
        slope = logs.exp().scatter_add(1, at, torch.full_like(at, -1, dtype=accumulated))
        slope = slope * share[:, None]
        by_x.append(slope @ wide_matrix)
        by_matrix = by_matrix + slope.T @ wide_x[part]
        by_bias = by_bias + slope.sum(0)
    gradients = (torch.cat(by_x), by_matrix, by_bias)
    none = (x.new_empty(0, 0), x.new_empty(0, 0), x.new_empty(0))
    return (
        loss.to(x.dtype),
        *(g.to(x.dtype) if w else n for g, w, n in zip(gradients, wanted, none, strict=True)),
    )


def without_reduction(
    x: Tensor, matrix: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None,
    ignored: int, size: int, policy: str, accumulated: torch.dtype,
) -> Any:  # fmt: skip
    """The loss of each element of the batch."""
    count = x.shape[0]
    if count > MOST_CHUNKS * size or not count:
        return NotImplemented
    shares = _shares(target, weight, ignored, accumulated)
    wide_bias = None if bias is None else bias.to(accumulated)
    found = []
    for part in _chunks(count, size):
        logits = _logits(x[part].to(accumulated), matrix.to(accumulated), wide_bias)
        chosen = logits.log_softmax(1).gather(1, _places(target[part], ignored))[:, 0]
        found.append(-chosen * shares[part])
    return torch.cat(found).to(x.dtype)


_operators = torch.ops.torch_nn

DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    _operators._linear_cross_entropy_batch_chunked.default: chunked,
    _operators._linear_cross_entropy_batch_chunked_no_reduction.default: without_reduction,
}
"""What stands for each of torch's operators."""
