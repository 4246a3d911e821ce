"""Each kind of row in PyTorch. Images come NHWC, which PyTorch calls channels last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as nn

from benchmarks.cpu.functions.inputs import RESNET18, Parameters

Function = Callable[..., Any]


def _gemm(p: Parameters) -> Function:
    return torch._int_mm if p.get("dtype") == "int8" else torch.matmul


def _layernorm(x: Any, scale: Any, shift: Any) -> Any:
    return nn.layer_norm(x, x.shape[-1:], scale, shift, 1e-5)


def _conv_nhwc(x: Any, w: Any, stride: int, groups: int = 1) -> Any:
    """Filters are OIHW already (see `adapted`)."""
    y = nn.conv2d(x.permute(0, 3, 1, 2), w, None, stride, w.shape[-1] // 2, 1, groups)
    return y.permute(0, 2, 3, 1)


def _conv(p: Parameters) -> Function:
    return partial(_conv_nhwc, stride=p.get("stride", 1), groups=p.get("groups", 1))


def _lstm_cell(x: Any, h: Any, c: Any, wx: Any, wh: Any, bias: Any) -> Any:
    i, f, g, o = (x @ wx + h @ wh + bias).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    flat = x.reshape(-1, x.shape[-1])
    variance, mean = torch.var_mean(flat, 0, correction=0)
    return (x - mean) * torch.rsqrt(variance + 1e-5) * scale + shift, mean, variance


def _mlp_loss(weights: Any, x: Any, labels: Any) -> Any:
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    for w, b in pairs[:-1]:
        x = torch.relu(torch.addmm(b, x, w))
    w, b = pairs[-1]
    return nn.cross_entropy(torch.addmm(b, x, w), labels.long())


def _step(loss: Function) -> Function:
    def run(x: Any, labels: Any, *weights: Any) -> Any:
        leaves = [w.detach().requires_grad_() for w in weights]
        value = loss(leaves, x, labels)
        gradients = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            new = [w - 0.01 * g for w, g in zip(weights, gradients, strict=True)]
        return value.detach(), *new

    return run


def _block(p: Parameters) -> Function:
    heads = p["heads"]

    def split(x: Any) -> Any:
        b, n, w = x.shape
        return x.reshape(b, n, heads, w // heads).transpose(1, 2)

    def run(
        x: Any, s1: Any, b1: Any, qkv: Any, out: Any, s2: Any, b2: Any, up: Any, down: Any
    ) -> Any:
        parts = (_layernorm(x, s1, b1) @ qkv).chunk(3, -1)
        mixed = nn.scaled_dot_product_attention(*map(split, parts))
        x = x + mixed.transpose(1, 2).reshape(x.shape) @ out
        return x + nn.gelu(_layernorm(x, s2, b2) @ up, approximate="tanh") @ down

    return run


def _block_backward(p: Parameters) -> Function:
    forward = _block(p)

    def run(*arguments: Any) -> Any:
        leaves = [a.detach().requires_grad_() for a in arguments]
        return torch.autograd.grad((forward(*leaves) ** 2).mean(), leaves)

    return run


def _resnet18(x: Any, weights: Any) -> Any:
    left = iter(weights)

    def conv(x: Any, stride: int) -> Any:
        w, scale, shift = next(left), next(left), next(left)
        return _conv_nhwc(x, w, stride) * scale + shift

    x = torch.relu(conv(x, 2))
    x = nn.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1)
    for _, _, stride in RESNET18:
        y = conv(torch.relu(conv(x, stride)), 1)
        x = torch.relu(y + (conv(x, stride) if stride > 1 else x))
    return x.mean((1, 2)) @ next(left)


def _resnet18_loss(weights: Any, x: Any, labels: Any) -> Any:
    return nn.cross_entropy(_resnet18(x, weights), labels.long())


def _fft(p: Parameters) -> Function:
    if "axis" in p:
        one = {"fft": torch.fft.fft, "rfft": torch.fft.rfft}[p["op"]]
        return lambda x: one(x, dim=p["axis"])
    many = {"fft": torch.fft.fftn, "ifft": torch.fft.ifftn, "rfft": torch.fft.rfftn,
            "irfft": torch.fft.irfftn}[p["op"]]  # fmt: skip
    return lambda x: many(x, dim=tuple(range(-p.get("rank", 1), 0)))


def _vectors(*parts: Any) -> tuple[Any, ...]:
    return tuple(part.abs() for part in parts)


def _eigh(a: Any) -> tuple[Any, ...]:
    values, vectors = torch.linalg.eigh(a)
    return values, *_vectors(vectors)


def _eig(a: Any) -> tuple[Any, ...]:
    values, vectors = torch.linalg.eig(a)
    return values.abs().sort().values, vectors.abs().sum()


def _svd(a: Any) -> tuple[Any, ...]:
    left, values, right = torch.linalg.svd(a, full_matrices=False)
    return values, *_vectors(left, right)


def _triangular_solve(a: Any, b: Any) -> Any:
    return torch.linalg.solve_triangular(a, b, upper=False)


def adapted(kind: str, arguments: list[Any]) -> list[Any]:
    """Arguments as PyTorch keeps them: filters OIHW in the channels-last format, wide indices."""
    if kind in ("conv", "resnet18_forward", "resnet18_step"):
        return [arguments[0], *map(_filter, arguments[1:])]
    wide = kind in ("gather", "scatter_add")
    return [a.long() if wide and not a.is_floating_point() else a for a in arguments]


def _filter(w: Any) -> Any:
    if w.dim() != 4:
        return w
    return w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def restored(kind: str, results: list[Any]) -> list[Any]:
    """Results as the other libraries give them."""
    if kind != "resnet18_step":
        return results
    return [r.permute(2, 3, 1, 0) if r.dim() == 4 else r for r in results]


FUNCTIONS: Mapping[str, Callable[[Parameters], Function]] = {
    "add_one": lambda p: lambda x: x + 1.0,
    "gemm": _gemm,
    "softmax": lambda p: partial(torch.softmax, dim=-1),
    "layernorm": lambda p: _layernorm,
    "gelu": lambda p: partial(nn.gelu, approximate="tanh"),
    "sum": lambda p: lambda x: x.sum() if p.get("axis") is None else x.sum(p["axis"]),
    "transpose": lambda p: lambda x: x.permute(p["permutation"]).contiguous(),
    "gather": lambda p: lambda x, i: x.index_select(0, i),
    "scatter_add": lambda p: lambda x, i, u: x.index_add(0, i, u),
    "cumsum": lambda p: lambda x: x.cumsum(p["axis"]),
    "sort": lambda p: lambda x: x.sort(-1).values,
    "top_k": lambda p: lambda x: tuple(x.topk(p["k"])),
    "conv": _conv,
    "attention": lambda p: nn.scaled_dot_product_attention,
    "lstm_cell": lambda p: _lstm_cell,
    "batch_norm": lambda p: _batch_norm,
    "mlp_step": lambda p: _step(_mlp_loss),
    "block_forward": _block,
    "block_backward": _block_backward,
    "resnet18_forward": lambda p: lambda x, _, *weights: _resnet18(x, weights),
    "resnet18_step": lambda p: _step(_resnet18_loss),
    "fft": _fft,
    "cholesky": lambda p: torch.linalg.cholesky,
    "qr": lambda p: lambda a: _vectors(*torch.linalg.qr(a)),
    "eigh": lambda p: _eigh,
    "svd": lambda p: _svd,
    "eig": lambda p: _eig,
    "triangular_solve": lambda p: _triangular_solve,
    "solve": lambda p: torch.linalg.solve,
    "lstsq": lambda p: lambda a, b: torch.linalg.lstsq(a, b).solution,
    "inverse": lambda p: torch.linalg.inv,
    "determinant": lambda p: torch.linalg.det,
    "expm": lambda p: torch.linalg.matrix_exp,
}
"""By kind of row."""
