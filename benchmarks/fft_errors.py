"""Compares the errors of transforms with XLA:CPU's, on the rows of the family `fft`.

    JAX_PLATFORMS=cpu,xladev_cpu python -m benchmarks.fft_errors

For each row, the root mean square of the error relative to that of the result, beside SciPy's
transform in the longest type that NumPy has; and the same of what comes back, beside the argument.
Needs jax, scipy and xladev[jax].
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft

ROWS = Path(__file__).with_name("rows.toml")
BACK = {"fft": "ifft", "ifft": "fft", "rfft": "irfft", "irfft": "rfft"}
OURS, THEIRS = "xladev_cpu", "cpu"
Array = Any


def transform(
    library: Any, op: str, row: Mapping[str, Any], shape: tuple[int, ...]
) -> Callable[[Array], Array]:
    """The row's transform, or the one back to a shape, of NumPy's kind of library."""
    axes = [row["axis"]] if "axis" in row else list(range(-row.get("rank", 1), 0))
    name = op if op.endswith("n") else op + "n"
    sizes = [shape[axis] for axis in axes] if op == "irfft" else None
    return lambda x: getattr(library, name)(x, s=sizes, axes=axes)


def drawn(row: Mapping[str, Any]) -> Array:
    """The argument, in the row's type: a spectrum of a real signal for irfft."""
    chance = np.random.default_rng(7)
    kind = row.get("dtype", "float32")
    x = chance.standard_normal(row["shape"]).astype(kind)
    if row["op"] == "rfft":
        return x
    if row["op"] == "irfft":
        spectrum = transform(scipy.fft, "rfft", row, x.shape)(x.astype(np.longdouble))
        return spectrum.astype(np.result_type(kind, np.complex64))
    return x + 1j * chance.standard_normal(row["shape"]).astype(kind)


def error(found: Array, wanted: Array) -> float:
    """Root mean square of the difference, relative."""
    apart = np.linalg.norm((np.asarray(found).astype(wanted.dtype) - wanted).ravel())
    return float(apart / np.linalg.norm(wanted.ravel()))


def errors(row: Mapping[str, Any], platform: str) -> tuple[float, float]:
    """Of the row's transform, and of what comes back from it."""
    op, shape = row["op"], tuple(row["shape"])
    x = drawn(row)
    wide = x.astype(np.result_type(x.dtype, np.longdouble))
    wanted = transform(scipy.fft, op, row, shape)(wide)
    with jax.default_device(jax.devices(platform)[0]):
        y = jax.jit(transform(jnp.fft, op, row, shape))(x)
        z = jax.jit(transform(jnp.fft, BACK[op], row, shape))(y)
        return error(y, wanted), error(z, wide)


def main() -> None:
    """Prints a line for each row, then ratios."""
    jax.config.update("jax_enable_x64", True)
    ratios: list[list[float]] = [[], []]
    for name, row in tomllib.loads(ROWS.read_text())["fft"].items():
        ours, theirs = errors(row, OURS), errors(row, THEIRS)
        for at in range(2):
            ratios[at].append(ours[at] / theirs[at])
        pairs = zip(ours, theirs, strict=True)
        print(f"{name:28s} " + "  ".join(f"{a:.2e} {b:.2e}" for a, b in pairs))
    for what, found in zip(("forward", "and back"), ratios, strict=True):
        mean = float(np.exp(np.mean(np.log(found))))
        print(f"{what}: {mean:.2f} of XLA's error in the geometric mean, {max(found):.2f} at most")


if __name__ == "__main__":
    main()
