"""Normalisation over batches, layers and groups, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xladev.frontends.torch.lower.reductions import moments
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo.shape import Shape

NORMALIZATION = Family("normalization", "Normalisation over batches, layers, groups.", wide=True)
_lowers = NORMALIZATION.lowers


def normalized(x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value, Value]:
    """x less its mean, over its deviation; the mean; one over the deviation. Sizes stay."""
    variance, mean = moments(x, axes, 0)
    scale = (variance + eps).op("rsqrt")
    return (x - mean) * scale, mean, scale


@_lowers("native_layer_norm.default")
def _layer_norm(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    sizes: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> list[Value]:
    """Each of the last dimensions' arrays with mean 0 and variance 1, scaled and shifted."""
    axes = range(x.rank - len(sizes), x.rank)
    y, mean, scale = normalized(x, axes, eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return [y, mean.reshape(out[1].dims), scale.reshape(out[2].dims)]


@_lowers("native_layer_norm_backward.default", sample="nn.functional.layer_norm")
def _layer_norm_backward(
    b: TensorBuilder,
    out: Sequence[Shape | None],
    gradient: Value,
    x: Value,
    sizes: Sequence[int],
    mean: Value,
    scale: Value,
    weight: Value | None,
    bias: Value | None,
    mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of input, weight and bias, those that the mask asks for."""
    inner = tuple(range(x.rank - len(sizes), x.rank))
    outer = tuple(range(x.rank - len(sizes)))
    kept = (*x.dims[: len(outer)], *(1,) * len(inner))
    away = (x - mean.reshape(kept)) * scale.reshape(kept)
    found: list[Value | None] = [None, None, None]
    if mask[0]:
        scaled = gradient if weight is None else gradient * weight
        count = prod(sizes)
        first = scaled.sum(inner, keep=True)
        second = (scaled * away).sum(inner, keep=True)
        found[0] = scale.reshape(kept) * (scaled - (first + away * second) / max(count, 1))
    if mask[1] and weight is not None:
        found[1] = (gradient * away).sum(outer)
    if mask[2] and bias is not None:
        found[2] = gradient.sum(outer)
    return found


@_lowers("native_group_norm.default")
def _group_norm(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    eps: float,
) -> list[Value]:
    """Each group of channels with mean 0 and variance 1, channels scaled and shifted."""
    each = (batch, groups, channels // groups, size)
    y, mean, scale = normalized(x.reshape(each), (2, 3), eps)
    y = y.reshape((batch, channels, size))
    if weight is not None:
        y = y * weight.reshape((channels, 1))
    if bias is not None:
        y = y + bias.reshape((channels, 1))
    dims = (batch, groups)
    return [y.reshape(x.dims), mean.reshape(dims), scale.reshape(dims)]


# Batches


def _channels(x: Value, each: Value) -> Value:
    """One value of each channel, in sizes that x takes."""
    return each.reshape((each.size, *(1,) * (x.rank - 2)))


def _batch_norm(
    x: Value, weight: Value | None, bias: Value | None, mean: Value, scale: Value
) -> Value:
    y = (x - _channels(x, mean)) * _channels(x, scale)
    if weight is not None:
        y = y * _channels(x, weight)
    return y if bias is None else y + _channels(x, bias)


def _moved(old: Value, new: Value, momentum: Number) -> Value:
    return old * (1 - momentum) + new * momentum


@_lowers(
    "_native_batch_norm_legit_functional.default",
    "_batch_norm_with_update_functional.default",
    sample="nn.functional.batch_norm",
)
def _batch_norm_functional(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_variance: Value,
    *rest: Any,
) -> list[Value]:
    """Normalised by the batch or by what was kept; the statistics; what is kept from now on."""
    training, momentum, eps = rest if len(rest) == 3 else (True, *rest)
    reserve = [b.full(0, shape.element_type, shape.dims) for shape in out[3:-2]]
    if not training:
        scale = (running_variance + eps).op("rsqrt")
        y = _batch_norm(x, weight, bias, running_mean, scale)
        empty = [b.full(0, shape.element_type, shape.dims) for shape in out[1:3]]
        return [y, *empty, *reserve, running_mean, running_variance]
    y, mean, scale, variance = _of_batch(x, weight, bias, eps)
    count = x.size // max(x.dims[1], 1)
    unbiased = variance * (count / (count - 1)) if count > 1 else variance
    kept = [_moved(running_mean, mean, momentum), _moved(running_variance, unbiased, momentum)]
    return [y, mean, scale, *reserve, *kept]


def _of_batch(
    x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """Normalised by the batch, its mean, one over its deviation, and its variance."""
    axes = [0, *range(2, x.rank)]
    variance, mean = (each.reshape((x.dims[1],)) for each in moments(x, axes, 0))
    scale = (variance + eps).op("rsqrt")
    return _batch_norm(x, weight, bias, mean, scale), mean, scale, variance


@_lowers("_native_batch_norm_legit.no_stats", sample="nn.functional.instance_norm")
def _batch_norm_no_stats(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value]:
    """Normalised by the batch; its mean and one over its deviation."""
    return list(_of_batch(x, weight, bias, eps)[:3])


@_lowers(
    "_native_batch_norm_legit_no_training.default",
    sample="nn.functional.batch_norm",
)
def _batch_norm_inference(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_variance: Value,
    momentum: float,
    eps: float,
) -> list[Value]:
    """Normalised by what was kept."""
    scale = (running_variance + eps).op("rsqrt")
    y = _batch_norm(x, weight, bias, running_mean, scale)
    return [y, *(b.full(0, shape.element_type, shape.dims) for shape in out[1:])]


@_lowers(
    "native_batch_norm_backward.default",
    "batch_norm_backward.default",
    sample="nn.functional.batch_norm",
)
def _batch_norm_backward(
    b: TensorBuilder,
    out: Sequence[Shape | None],
    gradient: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_variance: Value | None,
    mean: Value | None,
    scale: Value | None,
    training: bool,
    eps: float,
    mask: Sequence[bool],
    *_: Any,
) -> list[Value | None]:
    """Gradients of input, weight and bias, those that the mask asks for."""
    axes = [0, *range(2, x.rank)]
    if not training:
        assert running_mean is not None and running_variance is not None
        mean, scale = running_mean, (running_variance + eps).op("rsqrt")
    assert mean is not None and scale is not None
    away = (x - _channels(x, mean)) * _channels(x, scale)
    total, along = gradient.sum(axes), (gradient * away).sum(axes)
    factor = scale if weight is None else scale * weight
    inner = gradient
    if training:
        count = x.size // max(x.dims[1], 1)
        inner = gradient - (_channels(x, total) + away * _channels(x, along)) / max(count, 1)
    found: list[Value | None] = [inner * _channels(x, factor) if mask[0] else None]
    found.append(along if mask[1] and out[1] is not None else None)
    found.append(total if mask[2] and out[2] is not None else None)
    return found
