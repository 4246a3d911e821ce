"""What `benchmarks.gpu_peers` times: one function for each framework, on the same numbers.

A function is written for JAX, whose HLO xladev compiles, and where it differs for torch and CuPy.
Sizes are those of a GPU; `small` ones try the functions without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Argument:
    """An array of numbers.

    Attributes:
        dims: of the array.
        dtype: such as ``bfloat16``.
        scale: numbers are between minus and plus this.
    """

    dims: tuple[int, ...]
    dtype: str
    scale: float = 1.0

    def values(self, seed: int) -> np.ndarray:
        """The numbers, as f32: a repeated stretch of random ones, which is quick to make."""
        count = int(np.prod(self.dims, dtype=np.int64))
        few = np.random.default_rng(seed).uniform(-self.scale, self.scale, min(count, 1 << 20))
        return np.resize(few.astype(np.float32), self.dims)


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the table.

    Attributes:
        name: of the row.
        arguments: what the functions take.
        nbytes: read and written at least once.
        flops: multiplications and additions of matrix products.
        functions: by framework: of its module (jax.numpy, torch, cupy) and the arrays.
    """

    name: str
    arguments: tuple[Argument, ...]
    nbytes: int
    flops: int
    functions: Mapping[str, Function] = field(default_factory=dict)


def _gelu(xp: Any, x: Array) -> Array:
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))


def _softmax(xp: Any, x: Array) -> Array:
    e = xp.exp(x - xp.max(x, -1, keepdims=True))
    return e / xp.sum(e, -1, keepdims=True)


def _torch_softmax(xp: Any, x: Array) -> Array:
    return xp.softmax(x, -1)


def workloads(small: bool) -> list[Workload]:
    """All rows, in order."""
    shrink = 32 if small else 1
    rows, columns, m = 32768 // shrink, 16384 // shrink, 8192 // shrink
    return [*_bound_by_memory(rows, columns), *_bound_by_products(m), *_of_small_arrays()]


def _bound_by_memory(rows: int, columns: int) -> list[Workload]:
    """Of an array of f32 or bf16."""
    f32, bf16 = (Argument((rows, columns), t) for t in ("float32", "bfloat16"))
    line = Argument((columns,), "float32")
    count = rows * columns

    def everywhere(function: Function) -> dict[str, Function]:
        return dict.fromkeys(("jax", "torch", "cupy"), function)

    return [
        Workload("copy_f32", (f32,), 8 * count, 0, everywhere(lambda xp, x: -x)),
        Workload(
            "gelu_f32", (f32, line, line), 8 * count, 0,
            everywhere(lambda xp, x, s, b: _gelu(xp, x * s + b)),
        ),
        Workload(
            "gelu_bf16", (bf16,), 4 * count, 0,
            {"jax": _gelu, "torch": lambda xp, x: xp.nn.functional.gelu(x, approximate="tanh")},
        ),
        Workload(
            "softmax_f32", (f32,), 8 * count, 0,
            {"jax": _softmax, "torch": _torch_softmax, "cupy": _softmax},
        ),
        Workload(
            "sum_rows_f32", (f32,), 4 * count, 0, everywhere(lambda xp, x: x.sum(1)),
        ),
        Workload(
            "sum_columns_f32", (f32,), 4 * count, 0, everywhere(lambda xp, x: x.sum(0)),
        ),
        Workload(
            "transpose_f32", (f32,), 8 * count, 0,
            {
                "jax": lambda xp, x: x.T,
                "torch": lambda xp, x: x.t().contiguous(),
                "cupy": lambda xp, x: xp.ascontiguousarray(x.T),
            },
        ),
        Workload("sort_f32", (line,), 8 * columns, 0, {
            "jax": lambda xp, x: xp.sort(x),
            "torch": lambda xp, x: xp.sort(x)[0],
            "cupy": lambda xp, x: xp.sort(x),
        }),
    ]  # fmt: skip


def _bound_by_products(m: int) -> list[Workload]:
    """Of square matrices."""
    made = []
    for dtype, nbytes in (("bfloat16", 2), ("float32", 4)):
        n = m if dtype == "bfloat16" else m // 2
        both = (Argument((n, n), dtype, 0.25),) * 2
        functions = {"jax": lambda xp, x, y: x @ y, "torch": lambda xp, x, y: x @ y}
        if dtype == "float32":
            functions["cupy"] = functions["jax"]
        name = f"product_{'bf16' if nbytes == 2 else 'f32'}"
        made.append(Workload(name, both, 3 * nbytes * n * n, 2 * n**3, functions))
    square, line = Argument((m, m), "bfloat16", 0.25), Argument((m,), "bfloat16")
    layer = {
        "jax": lambda xp, x, w, b: _gelu(xp, x @ w + b),
        "torch": lambda xp, x, w, b: xp.nn.functional.gelu(xp.addmm(b, x, w), approximate="tanh"),
    }
    made.append(Workload("layer_gelu_bf16", (square, square, line), 6 * m * m, 2 * m**3, layer))
    return made


def _of_small_arrays() -> list[Workload]:
    """What a call costs."""
    line = Argument((256,), "float32")
    add = dict.fromkeys(("jax", "torch", "cupy"), lambda xp, x, y: x + y)
    square = Argument((64, 64), "float32", 0.3)

    def chain(xp: Any, x: Array, w: Array) -> Array:
        for _ in range(64):
            x = xp.tanh(x @ w)
        return x

    every = dict.fromkeys(("jax", "torch", "cupy"), chain)
    return [
        Workload("add_256", (line, line), 3072, 0, add),
        Workload("chain_64", (square, square), 0, 0, every),
    ]
