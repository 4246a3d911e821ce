"""Arguments of each kind of row: shapes, types, and seeded values."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from benchmarks.cpu.wire import Array, named_dtype

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Input:
    """One argument.

    Attributes:
        shape: its dimensions.
        dtype: name of its type.
        high: integers are below it.
        scale: standard deviation of floats; 0 means by the fan-in: one over the root of the product
            of all dimensions but the last.
        mean: mean of floats.
        form: of square matrices, one of `FORMS`; empty for any.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    high: int = 64
    scale: float = 1.0
    mean: float = 0.0
    form: str = ""

    def values(self, generator: np.random.Generator) -> Array:
        """An array of normally distributed numbers, or of evenly distributed integers."""
        dtype = named_dtype(self.dtype)
        if dtype.kind in "iu":
            low = -self.high if self.dtype == "int8" else 0
            return generator.integers(low, self.high, self.shape, dtype)
        scale = self.scale or prod(self.shape[:-1]) ** -0.5
        drawn = generator.standard_normal(self.shape, np.float32)
        if dtype.kind == "c":
            drawn = drawn + 1j * generator.standard_normal(self.shape, np.float32)
        values = np.asarray(drawn * np.float32(scale) + np.float32(self.mean)).astype(dtype)
        return FORMS[self.form](values) if self.form else values


def _positive(a: Array) -> Array:
    """Symmetric, with eigenvalues of about 1 to 5."""
    size = a.shape[-1]
    return np.asarray(a @ a.swapaxes(-1, -2) / size + np.eye(size, dtype=a.dtype))


def _well_conditioned(a: Array) -> Array:
    """Far from singular: a random matrix and a diagonal as large as its columns."""
    size = a.shape[-1]
    return np.asarray(a + 2 * np.sqrt(size).astype(a.dtype) * np.eye(size, dtype=a.dtype))


FORMS: Mapping[str, Callable[[Array], Array]] = {
    "positive": _positive,
    "symmetric": lambda a: np.asarray(a + a.swapaxes(-1, -2)) / 2,
    "lower": lambda a: np.tril(_well_conditioned(a)),
    "regular": _well_conditioned,
}
"""What makes a matrix of a form out of random numbers."""


def made(name: str, inputs: Sequence[Input]) -> list[Array]:
    """The arguments of the row called ``name``: the same in every run."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return [i.values(generator) for i in inputs]


def _gemm(p: Parameters) -> tuple[Input, ...]:
    dtype = p.get("dtype", "float32")
    return Input((p["m"], p["k"]), dtype), Input((p["k"], p["n"]), dtype, scale=0)


def _array(p: Parameters) -> tuple[Input, ...]:
    return (Input(tuple(p["shape"])),)


def _layernorm(p: Parameters) -> tuple[Input, ...]:
    width = (p["shape"][-1],)
    return Input(tuple(p["shape"])), Input(width, mean=1.0, scale=0.1), Input(width)


def _gather(p: Parameters) -> tuple[Input, ...]:
    return Input((p["rows"], p["width"])), Input((p["count"],), "int32", high=p["rows"])


def _scatter(p: Parameters) -> tuple[Input, ...]:
    return (*_gather(p), Input((p["count"], p["width"])))


def _conv(p: Parameters) -> tuple[Input, ...]:
    """Images NHWC, filters HWIO."""
    n, size, cin, cout, k = (p[key] for key in ("batch", "size", "cin", "cout", "kernel"))
    groups = p.get("groups", 1)
    return Input((n, size, size, cin)), Input((k, k, cin // groups, cout), scale=0)


def _attention(p: Parameters) -> tuple[Input, ...]:
    shape = (p["batch"], p["heads"], p["length"], p["width"])
    return Input(shape), Input(shape), Input(shape)


def _lstm_cell(p: Parameters) -> tuple[Input, ...]:
    """Input, hidden, cell, weights of input and hidden ([in, 4 width]), bias."""
    b, w = p["batch"], p["width"]
    weights = Input((w, 4 * w), scale=0)
    return Input((b, w)), Input((b, w)), Input((b, w)), weights, weights, Input((4 * w,))


def _bi_lstm(p: Parameters) -> tuple[Input, ...]:
    """Inputs of all steps, hidden, cell, and the weights of a cell for each direction."""
    x, *state, wx, wh, bias = _lstm_cell(p)
    steps = Input((p["steps"], *x.shape))
    return (steps, *state, wx, wh, bias, wx, wh, bias)


def _batch_norm(p: Parameters) -> tuple[Input, ...]:
    width = (p["shape"][-1],)
    return Input(tuple(p["shape"])), Input(width, mean=1.0), Input(width)


def _mlp_step(p: Parameters) -> tuple[Input, ...]:
    """Images, labels, then weights and biases of each layer."""
    sizes = p["layers"]
    layers = [
        i
        for a, b in zip(sizes, sizes[1:], strict=False)
        for i in (Input((a, b), scale=0), Input((b,), scale=0.01))
    ]
    labels = Input((p["batch"],), "int32", high=sizes[-1])
    return Input((p["batch"], sizes[0])), labels, *layers


def _block(p: Parameters) -> tuple[Input, ...]:
    """Tokens [batch, length, width], then weights of a block that normalises first."""
    w = p["width"]
    norm = (Input((w,), mean=1.0, scale=0.1), Input((w,), scale=0.1))
    matrices = [Input((w, n * w), scale=0) for n in (3, 1, 4)]
    return (
        Input((p["batch"], p["length"], w)),
        *norm, *matrices[:2], *norm, matrices[2], Input((4 * w, w), scale=0),
    )  # fmt: skip


RESNET18 = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
            (256, 512, 2), (512, 512, 1))  # fmt: skip
"""The residual blocks: channels in, channels out, stride."""


def _resnet18(p: Parameters) -> tuple[Input, ...]:
    """Images NHWC, labels, the stem's filter, each block's (two, and the shortcut's), the head.

    Filters are HWIO; normalisation is folded into a scale and a shift for each convolution.
    """

    def conv(k: int, cin: int, cout: int) -> tuple[Input, ...]:
        affine = Input((cout,), mean=1.0, scale=0.1), Input((cout,), scale=0.1)
        return Input((k, k, cin, cout), scale=0), *affine

    weights = list(conv(7, 3, 64))
    for cin, cout, stride in RESNET18:
        weights += [*conv(3, cin, cout), *conv(3, cout, cout)]
        weights += conv(1, cin, cout) if stride > 1 else ()
    images = Input((p["batch"], p["size"], p["size"], 3))
    labels = Input((p["batch"],), "int32", high=1000)
    return images, labels, *weights, Input((512, 1000), scale=0)


def _fft(p: Parameters) -> tuple[Input, ...]:
    """Real for real transforms; half a spectrum for what gives real numbers back."""
    wide = p.get("dtype", "float32") == "float64"
    shape = tuple(p["shape"])
    if p["op"] == "irfft":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    real, both = ("float64", "complex128") if wide else ("float32", "complex64")
    return (Input(shape, real if p["op"] == "rfft" else both),)


def _matrix(form: str) -> Callable[[Parameters], tuple[Input, ...]]:
    """One matrix, n x n or m x n, or a batch of them."""

    def inputs(p: Parameters) -> tuple[Input, ...]:
        batch = (p["batch"],) if "batch" in p else ()
        shape = (*batch, p.get("m", p["n"]), p["n"])
        return (Input(shape, p.get("dtype", "float32"), form=form),)

    return inputs


def _system(form: str) -> Callable[[Parameters], tuple[Input, ...]]:
    """A matrix, and right sides: ``sides`` columns for each row of it."""

    def inputs(p: Parameters) -> tuple[Input, ...]:
        (a,) = _matrix(form)(p)
        return a, Input((*a.shape[:-1], p["sides"]), a.dtype)

    return inputs


def _tridiagonal(p: Parameters) -> tuple[Input, ...]:
    line = Input((p["n"],))
    return line, line, line, Input((p["n"], p["sides"]))


def _square(p: Parameters) -> tuple[Input, ...]:
    return (Input((p["n"], p["n"])),)


def _gaussian_process(p: Parameters) -> tuple[Input, ...]:
    return Input((3,), scale=0.1), Input((p["n"], p["width"])), Input((p["n"],))


def _kalman(p: Parameters) -> tuple[Input, ...]:
    """What moves the state, and observations of half of it."""
    return Input((p["n"], p["n"]), scale=0), Input((p["length"], p["n"] // 2))


def _ode(p: Parameters) -> tuple[Input, ...]:
    return Input((2, p["pairs"])), Input((4, p["pairs"]))


def _hamiltonian(p: Parameters) -> tuple[Input, ...]:
    """A seed, explaining variables, and what they explain (by its lowest bit)."""
    return Input((1,), "int32"), Input((p["n"], p["width"])), Input((p["n"],), "int32")


def _pca(p: Parameters) -> tuple[Input, ...]:
    return (Input((p["m"], p["n"])),)


INPUTS: Mapping[str, Callable[[Parameters], tuple[Input, ...]]] = {
    "add_one": lambda p: (Input(tuple(p["shape"])),),
    "gemm": _gemm,
    "softmax": _array,
    "layernorm": _layernorm,
    "gelu": _array,
    "sum": _array,
    "transpose": _array,
    "gather": _gather,
    "scatter_add": _scatter,
    "cumsum": _array,
    "window": _array,
    "sort": _array,
    "top_k": _array,
    "conv": _conv,
    "attention": _attention,
    "lstm_cell": _lstm_cell,
    "bi_lstm": _bi_lstm,
    "batch_norm": _batch_norm,
    "mlp_step": _mlp_step,
    "block_forward": _block,
    "block_backward": _block,
    "resnet18_forward": _resnet18,
    "resnet18_step": _resnet18,
    "fft": _fft,
    **dict.fromkeys(("cholesky", "cholesky_backward"), _matrix("positive")),
    **dict.fromkeys(("eigh", "eigh_backward"), _matrix("symmetric")),
    **dict.fromkeys(("lu", "inverse", "determinant"), _matrix("regular")),
    **dict.fromkeys(("qr", "svd", "svd_backward", "eig", "hessenberg", "schur"), _matrix("")),
    "expm": lambda p: (Input((p["n"], p["n"]), scale=0),),
    "triangular_solve": _system("lower"),
    "solve": _system("regular"),
    "lstsq": _system(""),
    "tridiagonal_solve": _tridiagonal,
    "navier_stokes": _square,
    "poisson": _square,
    "gaussian_process": _gaussian_process,
    "kalman": _kalman,
    "kalman_backward": _kalman,
    "ode": _ode,
    "ode_backward": _ode,
    "hamiltonian": _hamiltonian,
    "nuts": _hamiltonian,
    "pca": _pca,
}
"""By kind of row."""
