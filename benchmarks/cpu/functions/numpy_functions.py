"""Each kind of row in NumPy, where that has a plain way to say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.cpu.functions.inputs import Parameters
from benchmarks.cpu.wire import Array

Function = Callable[..., Any]


def _gemm(p: Parameters) -> Function | None:
    return np.matmul if p.get("dtype", "float32") == "float32" else None


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layernorm(x: Array, scale: Array, shift: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5))
    return centred / spread * scale + shift


def _gelu(x: Array) -> Array:
    inner = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x**3)
    return x * np.float32(0.5) * (1 + np.tanh(inner))


def _scatter_add(x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    np.add.at(result, indices, updates)
    return result


def _attention(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    return _softmax(scores) @ v


def _batch_norm(x: Array, scale: Array, shift: Array) -> tuple[Array, Array, Array]:
    axes = tuple(range(x.ndim - 1))
    mean, variance = x.mean(axes), x.var(axes)
    return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + shift, mean, variance


def _fft(p: Parameters) -> Function:
    if "axis" in p:
        one = {"fft": np.fft.fft, "rfft": np.fft.rfft}[p["op"]]
        return lambda x: one(x, axis=p["axis"])
    many = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn,
            "irfft": np.fft.irfftn}[p["op"]]  # fmt: skip
    return lambda x: many(x, axes=tuple(range(-p.get("rank", 1), 0)))


def _vectors(*parts: Array) -> tuple[Array, ...]:
    return tuple(np.abs(part) for part in parts)


def _eigh(a: Array) -> tuple[Array, ...]:
    values, vectors = np.linalg.eigh(a)
    return values, *_vectors(vectors)


def _eig(a: Array) -> tuple[Array, ...]:
    values, vectors = np.linalg.eig(a)
    return np.sort(np.abs(values)), np.abs(vectors).sum()


def _svd(a: Array) -> tuple[Array, ...]:
    left, values, right = np.linalg.svd(a, full_matrices=False)
    return values, *_vectors(left, right)


FUNCTIONS: Mapping[str, Callable[[Parameters], Function | None]] = {
    "add_one": lambda p: lambda x: x + np.float32(1),
    "gemm": _gemm,
    "softmax": lambda p: _softmax,
    "layernorm": lambda p: _layernorm,
    "gelu": lambda p: _gelu,
    "sum": lambda p: lambda x: x.sum(p.get("axis")),
    "transpose": lambda p: lambda x: np.ascontiguousarray(x.transpose(p["permutation"])),
    "gather": lambda p: lambda x, i: x.take(i, 0),
    "scatter_add": lambda p: _scatter_add,
    "cumsum": lambda p: lambda x: x.cumsum(p["axis"]),
    "sort": lambda p: lambda x: np.sort(x, -1),
    "attention": lambda p: _attention,
    "batch_norm": lambda p: _batch_norm,
    "fft": _fft,
    "cholesky": lambda p: np.linalg.cholesky,
    "qr": lambda p: lambda a: _vectors(*np.linalg.qr(a)),
    "eigh": lambda p: _eigh,
    "svd": lambda p: _svd,
    "eig": lambda p: _eig,
    "solve": lambda p: np.linalg.solve,
    "lstsq": lambda p: lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
    "inverse": lambda p: np.linalg.inv,
    "determinant": lambda p: np.linalg.det,
}
"""By kind of row: a function of its arguments, or None."""
