"""Fourier transforms in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from benchmarks.cpu.functions.inputs import Parameters

Function = Callable[..., Any]


def _fft(p: Parameters) -> Function:
    """``op`` over the last ``rank`` dimensions, or along ``axis`` alone."""
    if "axis" in p:
        one = {"fft": jnp.fft.fft, "rfft": jnp.fft.rfft}[p["op"]]
        return lambda x: one(x, axis=p["axis"])
    axes = tuple(range(-p.get("rank", 1), 0))
    many = {
        "fft": jnp.fft.fftn, "ifft": jnp.fft.ifftn, "rfft": jnp.fft.rfftn, "irfft": jnp.fft.irfftn,
    }[p["op"]]  # fmt: skip
    return lambda x: many(x, axes=axes)


FUNCTIONS: Mapping[str, Callable[[Parameters], Function]] = {"fft": _fft}
"""By kind of row."""
