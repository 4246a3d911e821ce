"""A process of `jax.distributed` that trains a small transformer on the devices of all processes.

It prints the loss of each step, may save a checkpoint by orbax at the end, or begin with one.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xladev.frontends.jax import initialize

initialize()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 32, 16, 32, 4, 2, 8
Parameters = dict[str, Any]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="number of the first step")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--restore", type=Path)
    parser.add_argument("--collectives", action="store_true", help="check some instead")
    return parser.parse_args()


def parameters() -> Parameters:
    """Of the transformer, before training."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(0, 0.2, shape).astype(np.float32)

    layer = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH),
             "down": (4 * WIDTH, WIDTH)}  # fmt: skip
    return {
        "embedding": normal(VOCABULARY, WIDTH),
        "places": normal(LENGTH, WIDTH),
        "layers": [{k: normal(*shape) for k, shape in layer.items()} for _ in range(LAYERS)],
    }


def _norm(x: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)


def _attention(x: Any, layer: Parameters) -> Any:
    q, k, v = (
        part.reshape(*x.shape[:2], HEADS, -1) for part in jnp.split(_norm(x) @ layer["qkv"], 3, -1)
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ layer["out"]


def loss(weights: Parameters, tokens: Any) -> Any:
    """Mean cross entropy of the next token."""
    x = weights["embedding"][tokens[:, :-1]] + weights["places"]
    for layer in weights["layers"]:
        x = x + _attention(x, layer)
        x = x + jax.nn.gelu(_norm(x) @ layer["up"]) @ layer["down"]
    scores = jax.nn.log_softmax(_norm(x) @ weights["embedding"].T)
    return -jnp.take_along_axis(scores, tokens[:, 1:, None], -1).mean()


def _step(weights: Parameters, tokens: Any) -> tuple[Parameters, Any]:
    value, gradients = jax.value_and_grad(loss)(weights, tokens)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradients), value


def _tokens(step: int) -> Any:
    rng = np.random.default_rng(100 + step)
    start = rng.integers(0, VOCABULARY, (BATCH, 1))
    return ((start + 3 * np.arange(LENGTH + 1)) % VOCABULARY).astype(np.int32)


def _on_mesh(mesh: Mesh, spec: P) -> Callable[[Any], Any]:
    sharding = NamedSharding(mesh, spec)
    return lambda x: jax.make_array_from_callback(x.shape, sharding, lambda at: x[at])


def train(arguments: argparse.Namespace) -> None:
    """Data-parallel over half of the devices, weights sharded over the other half."""
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, 2), ("data", "model"))
    shardings = jax.tree.map(lambda _: NamedSharding(mesh, P(None, "model")), parameters())
    weights = jax.tree.map(
        lambda w, s: jax.make_array_from_callback(w.shape, s, lambda at: w[at]),
        parameters(), shardings,
    )  # fmt: skip
    if arguments.restore:
        import orbax.checkpoint as ocp

        with ocp.StandardCheckpointer() as checkpointer:
            target = jax.tree.map(
                lambda w: jax.ShapeDtypeStruct(w.shape, w.dtype, sharding=w.sharding), weights
            )
            weights = checkpointer.restore(arguments.restore, target)
    step = jax.jit(_step, out_shardings=(shardings, NamedSharding(mesh, P())))
    for number in range(arguments.first, arguments.first + arguments.steps):
        weights, value = step(weights, _on_mesh(mesh, P("data"))(_tokens(number)))
        print(f"loss {number} {float(value):.7f}", flush=True)
    if arguments.save:
        import orbax.checkpoint as ocp

        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(arguments.save, weights)


def collectives() -> None:
    """Collectives of all devices, and of `multihost_utils`, against NumPy."""
    from jax.experimental import multihost_utils

    count, here = jax.device_count(), jax.local_device_count()
    mesh = Mesh(np.array(jax.devices()), ("x",))
    whole = np.arange(4 * count * count, dtype=np.float32).reshape(count, 4 * count)
    given = _on_mesh(mesh, P("x"))(whole)

    def same(work: Callable[[Any], Any], out: P, want: Any) -> None:
        got = jax.jit(jax.shard_map(work, mesh=mesh, in_specs=P("x"), out_specs=out))(given)
        for shard in got.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), want[shard.index])

    same(lambda x: jax.lax.psum(x, "x"), P(None), whole.sum(0, keepdims=True))
    same(lambda x: jax.lax.all_gather(x, "x")[:, 0] + 0 * x, P("x"), np.tile(whole, (count, 1)))
    turned = whole.reshape(count, count, 4).transpose(1, 0, 2).reshape(count * count, 4)
    same(lambda x: jax.lax.all_to_all(x.reshape(count, 4), "x", 0, 0, tiled=True), P("x"), turned)
    around = [(i, (i + 1) % count) for i in range(count)]
    same(lambda x: jax.lax.ppermute(x, "x", around), P("x"), np.roll(whole, 1, 0))
    rows = np.full((here, 3), 1.0 + jax.process_index(), np.float32)
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(rows)
    want = here * sum(range(1, jax.process_count() + 1))
    np.testing.assert_array_equal(np.asarray(total.addressable_shards[0].data).ravel()[0], want)
    told = multihost_utils.process_allgather(np.float32(jax.process_index()))
    np.testing.assert_array_equal(told, np.arange(jax.process_count()))
    assert int(multihost_utils.broadcast_one_to_all(np.int32(7 + jax.process_index()))) == 7
    multihost_utils.sync_global_devices("end")
    print(f"collectives of {count} devices in {jax.process_count()} processes", flush=True)


def _said(own: str, by_mpi: str) -> int:
    """What the test or mpiexec says of this process."""
    names = (f"XLADEV_{own}", f"PMI_{by_mpi}", f"OMPI_COMM_WORLD_{by_mpi}")
    return int(next(os.environ[name] for name in names if name in os.environ))


def main() -> int:
    """The exit code."""
    arguments = _parsed()
    count, index = _said("PROCESSES", "SIZE"), _said("PROCESS", "RANK")
    if count > 1:
        jax.distributed.initialize(os.environ["XLADEV_COORDINATOR"], count, index)
    if arguments.collectives:
        collectives()
    else:
        train(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
