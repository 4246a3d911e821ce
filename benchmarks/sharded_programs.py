"""Programs cut over a mesh of 4 x 2 devices, as JAX functions of arguments with shardings.

They need jax, which is imported as a program is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.sharded_training_child import example

BOTH = ("x", "y")


@dataclass(frozen=True, slots=True)
class ShardedProgram:
    """One function.

    Attributes:
        run: takes arrays.
        arguments: of each the dimensions and the axes that cut them.
    """

    run: Callable[..., Any]
    arguments: Sequence[tuple[tuple[int, ...], tuple[Any, ...]]]


def _chain(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.tanh(x * 2 + 1) * jnp.exp(-x * x)


def _dense(x: Any, up: Any, down: Any) -> Any:
    import jax

    return jax.nn.gelu(x @ up) @ down


def _dense_gradients(x: Any, up: Any, down: Any) -> Any:
    import jax

    return jax.grad(lambda u, d: (_dense(x, u, d) ** 2).mean(), argnums=(0, 1))(up, down)


def _attention(q: Any, k: Any, v: Any) -> Any:
    import jax
    import jax.numpy as jnp

    weights = jax.nn.softmax(jnp.einsum("bthe,bshe->bhts", q, k) * 0.125)
    return jnp.einsum("bhts,bshe->bthe", weights, v)


def _layer_norm(x: Any) -> Any:
    import jax.numpy as jnp

    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def _convolution(x: Any, kernel: Any) -> Any:
    import jax

    shapes = ("NHWC", "HWIO", "NHWC")
    return jax.nn.relu(
        jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=shapes)
    )


def _lookup(table: Any, x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.take(table, (jnp.abs(x) * 100).astype(jnp.int32) % table.shape[0], axis=0)


def _recurrence(x: Any, w: Any) -> Any:
    """Scaled down: with w as drawn, rounding grows until two right results have nothing in common.

    Unscaled, 30 to 31 % of the elements differ from NumPy's in f64, on one device and on eight, of
    xladev, of XLA and of NumPy in f32 alike.
    """
    import jax
    import jax.numpy as jnp

    return jax.lax.scan(lambda h, now: (jnp.tanh(h @ w * 0.05 + now), None), x[0], x)[0]


def _entropy(x: Any) -> Any:
    import jax

    return -jax.nn.log_softmax(x)[:, 0].mean()


def _exchange(mesh: Any) -> Callable[[Any], Any]:
    import jax

    spec = jax.sharding.PartitionSpec
    to = jax.sharding.NamedSharding(mesh, spec(None, BOTH))
    return lambda x: jax.lax.with_sharding_constraint(x * 2, to) + 1


DENSE = (((512, 256), ("y",)), ((256, 1024), (None, "x")), ((1024, 256), ("x",)))
HEADS = ((8, 128, 8, 64), ("y", None, "x"))


def programs(mesh: Any) -> dict[str, ShardedProgram]:
    """All but the training steps."""
    whole: tuple[Any, ...] = ()
    examples = (DENSE[0][0], (BOTH,)), (DENSE[1][0], whole), (DENSE[2][0], whole)
    return {
        "elementwise": ShardedProgram(_chain, [((2048, 1024), BOTH)]),
        "dense layers, tensor": ShardedProgram(_dense, DENSE),
        "gradients, data": ShardedProgram(_dense_gradients, examples),
        "attention, heads": ShardedProgram(_attention, [HEADS] * 3),
        "layer norm, columns": ShardedProgram(_layer_norm, [((1024, 1024), ("y", "x"))]),
        "convolution, rows": ShardedProgram(
            _convolution, [((8, 64, 64, 16), ("y", "x")), ((3, 3, 16, 16), whole)]
        ),
        "lookup, cut table": ShardedProgram(_lookup, [((4096, 128), ("x",)), ((1024,), ("y",))]),
        "recurrence, tensor": ShardedProgram(
            _recurrence, [((16, 128, 256), (None, "y")), ((256, 256), (None, "x"))]
        ),
        "cross entropy, words": ShardedProgram(_entropy, [((512, 4096), ("y", "x"))]),
        "rows to columns": ShardedProgram(_exchange(mesh), [((1024, 1024), (BOTH,))]),
    }


def prepared(program: ShardedProgram, mesh: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function under `jax.jit`, and its arguments on the mesh."""
    import jax
    import numpy as np

    rng = np.random.default_rng(0)
    spec, named = jax.sharding.PartitionSpec, partial(jax.sharding.NamedSharding, mesh)
    arrays = [
        jax.device_put(rng.standard_normal(dims).astype(np.float32), named(spec(*axes)))
        for dims, axes in program.arguments
    ]
    return jax.jit(program.run), tuple(arrays)


def training_steps(mesh: Any) -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """Steps of `examples/jax_sharded`, as `prepared` gives them."""
    import jax

    train = example()

    def made(way: str) -> tuple[Any, tuple[Any, ...]]:
        with jax.default_device(mesh.devices.flat[0]):
            key = jax.random.key(0)
            run, *arguments = train.prepared(key, train.layouts(mesh)[way], mesh, donate=False)
        return run, tuple(arguments)

    return {f"training, {way}": partial(made, way) for way in ("data", "tensor")}
