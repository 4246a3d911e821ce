"""Activations, softmax, and what neural networks put between products."""

from __future__ import annotations

import math
from typing import Any

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.reductions import largest
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.frontends.torch.lower.views import at_dim
from xladev.hlo.shape import Shape

ACTIVATIONS = Family("activations", "Activations and softmax.", wide=True)
_lowers = ACTIVATIONS.lowers


@_lowers("relu.default", sample="nn.functional.relu")
def _relu(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The positive part."""
    return x.maximum(0)


@_lowers("leaky_relu.default", sample="nn.functional.leaky_relu")
def _leaky_relu(b: TensorBuilder, out: Shape, x: Value, slope: Number = 0.01) -> Value:
    """x where positive, else x times a slope."""
    return x.gt(0).where(x, x * slope)


@_lowers("leaky_relu_backward.default", sample="nn.functional.leaky_relu")
def _leaky_relu_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, slope: Number, is_result: bool
) -> Value:
    """The gradient, times the slope where x is negative."""
    return x.gt(0).where(gradient, gradient * slope)


@_lowers("threshold_backward.default", sample="nn.functional.relu")
def _threshold_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, threshold: Number
) -> Value:
    """The gradient where x is above a threshold."""
    return x.le(threshold).where(0, gradient)


@_lowers("hardtanh.default", sample="nn.functional.hardtanh")
def _hardtanh(b: TensorBuilder, out: Shape, x: Value, low: Number = -1, high: Number = 1) -> Value:
    """Kept between two bounds."""
    return x.maximum(low).minimum(high)


@_lowers("hardtanh_backward.default", sample="nn.functional.hardtanh")
def _hardtanh_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, low: Number, high: Number
) -> Value:
    """The gradient between the bounds."""
    return (x.le(low) | x.ge(high)).where(0, gradient)


@_lowers("elu.default", sample="nn.functional.elu")
def _elu(
    b: TensorBuilder, out: Shape, x: Value, alpha: Number = 1, scale: Number = 1, inner: Number = 1
) -> Value:
    """scale * x where positive, else scale * alpha * (exp(inner * x) - 1)."""
    low = (x * inner).op("exponential-minus-one") * (alpha * scale)
    return x.gt(0).where(x * scale, low)


@_lowers("gelu.default", sample="nn.functional.gelu")
def _gelu(b: TensorBuilder, out: Shape, x: Value, *, approximate: str = "none") -> Value:
    """x times the normal distribution's function, or its approximation by tanh."""
    if approximate == "none":
        return x * 0.5 * ((x * math.sqrt(0.5)).op("erf") + 1)
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (inner.op("tanh") + 1)


@_lowers("gelu_backward.default", sample="nn.functional.gelu")
def _gelu_backward(
    b: TensorBuilder, out: Shape, gradient: Value, x: Value, *, approximate: str = "none"
) -> Value:
    """The gradient through gelu."""
    if approximate == "none":
        below = ((x * math.sqrt(0.5)).op("erf") + 1) * 0.5
        density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
        return gradient * (below + x * density)
    factor = math.sqrt(2 / math.pi)
    t = ((x + x * x * x * 0.044715) * factor).op("tanh")
    slope = (1 - t * t) * (x * x * (3 * 0.044715) + 1) * factor
    return gradient * ((t + 1) * 0.5 + x * slope * 0.5)


@_lowers("silu.default", sample="nn.functional.silu")
def _silu(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """x times its sigmoid."""
    return x * x.op("logistic")


@_lowers("silu_backward.default", sample="nn.functional.silu")
def _silu_backward(b: TensorBuilder, out: Shape, gradient: Value, x: Value) -> Value:
    """The gradient through silu."""
    s = x.op("logistic")
    return gradient * (s * ((1 - s) * x + 1))


@_lowers("sigmoid_backward.default", sample="sigmoid")
def _sigmoid_backward(b: TensorBuilder, out: Shape, gradient: Value, y: Value) -> Value:
    """The gradient through sigmoid, of its result."""
    other = y.builder.full(1, y.dtype, y.dims) - y
    return gradient * _conjugated(other * y)


@_lowers("tanh_backward.default", sample="tanh")
def _tanh_backward(b: TensorBuilder, out: Shape, gradient: Value, y: Value) -> Value:
    """The gradient through tanh, of its result."""
    return gradient * _conjugated(1 - y * y)


def _conjugated(x: Value) -> Value:
    return x.op("real").op("complex", -x.op("imag")) if x.dtype.is_complex else x


@_lowers("softplus.default", sample="nn.functional.softplus")
def _softplus(
    b: TensorBuilder, out: Shape, x: Value, beta: Number = 1, threshold: Number = 20
) -> Value:
    """log(1 + exp(beta * x)) / beta; x itself above a threshold."""
    scaled = x * beta
    return scaled.gt(threshold).where(x, scaled.exp().log1p() / beta)


def softmax_parts(x: Value, dim: int) -> tuple[Value, Value, Value]:
    """x less its largest, the exponentials of that, and their sum with the dimension kept."""
    away = x - largest(x, (dim,), keep=True)
    exponentials = away.exp()
    return away, exponentials, exponentials.sum((dim,), keep=True)


@_lowers("_softmax.default", sample="softmax")
def _softmax(b: TensorBuilder, out: Shape, x: Value, dim: int, half_to_float: bool) -> Value:
    """Exponentials over their sum along a dimension."""
    taken = x.cast(out.element_type)
    if not taken.rank:
        return (taken - taken).exp()
    if not taken.size:
        return taken
    _, exponentials, total = softmax_parts(taken, at_dim(dim, x.rank))
    return exponentials / total


@_lowers("_log_softmax.default", sample="log_softmax")
def _log_softmax(b: TensorBuilder, out: Shape, x: Value, dim: int, half_to_float: bool) -> Value:
    """Logarithm of softmax."""
    taken = x.cast(out.element_type)
    if not taken.rank:
        return taken - taken
    if not taken.size:
        return taken
    away, _, total = softmax_parts(taken, at_dim(dim, x.rank))
    return away - total.log()


@_lowers("_softmax_backward_data.default", sample="softmax")
def _softmax_backward(
    b: TensorBuilder, out: Shape, gradient: Value, y: Value, dim: int, dtype: Any
) -> Value:
    """The gradient through softmax, of its result."""
    if not y.rank or not y.size:
        return (gradient - gradient) * y
    product = gradient * y
    return product - y * product.sum((at_dim(dim, y.rank),), keep=True)


@_lowers("_log_softmax_backward_data.default", sample="log_softmax")
def _log_softmax_backward(
    b: TensorBuilder, out: Shape, gradient: Value, y: Value, dim: int, dtype: Any
) -> Value:
    """The gradient through log_softmax, of its result."""
    if not y.rank or not y.size:
        return gradient - gradient
    return gradient - y.exp() * gradient.sum((at_dim(dim, y.rank),), keep=True)


@_lowers("_prelu_kernel.default", sample="nn.functional.prelu")
def _prelu(b: TensorBuilder, out: Shape, x: Value, weight: Value) -> Value:
    """x where positive, else x times a weight."""
    return x.gt(0).where(x, x * weight)


@_lowers("rrelu_with_noise_backward.default", sample="nn.functional.rrelu")
def _rrelu_backward(
    b: TensorBuilder,
    out: Shape,
    gradient: Value,
    x: Value,
    noise: Value,
    low: float,
    high: float,
    training: bool,
    is_result: bool,
) -> Value:
    """The gradient times the noise, or times the mean slope where x is negative."""
    slope = (low + high) / 2
    if training and high - low > 1e-6:
        return gradient * noise
    return x.gt(0).where(gradient, gradient * slope)


@_lowers("glu.default", sample="nn.functional.glu")
def _glu(b: TensorBuilder, out: Shape, x: Value, dim: int = -1) -> Value:
    """One half times the sigmoid of the other."""
    d = at_dim(dim, x.rank)
    half = x.dims[d] // 2
    return x.slice(d, 0, half) * x.slice(d, half, 2 * half).op("logistic")


@_lowers("native_dropout_backward.default", sample="nn.functional.dropout")
def _dropout_backward(
    b: TensorBuilder, out: Shape, gradient: Value, mask: Value, scale: Number
) -> Value:
    """The gradient of what was kept, scaled."""
    return gradient * operand(b, mask, gradient.dtype, gradient.dims) * scale
