"""Trains a small transformer on eight devices, cut in four ways; losses are those of one device.

    XLADEV_CPU_DEVICES=8 JAX_PLATFORMS=xladev_cpu python examples/jax_sharded/train.py

- data: each device has some of the examples; gradients are added up.
- tensor: each device has some of the heads and hidden units of every layer.
- sequence: each device has some of the positions; norms and products are cut along them.
- optimiser: as data, and each device keeps its part of the weights and of Adam's moments.

It needs jax alone.
"""

from __future__ import annotations

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WORDS, LENGTH, BATCH, WIDTH, HEADS, LAYERS = 32, 16, 8, 32, 8, 2
RATE, STEPS = 3e-3, 8

Weights = dict[str, jax.Array]


def initial_weights(key: jax.Array) -> Weights:
    """Weights of a decoder; those of all layers are stacked."""
    shapes = {
        "embedding": (WORDS, WIDTH),
        "position": (LENGTH, WIDTH),
        "query": (LAYERS, WIDTH, HEADS, WIDTH // HEADS),
        "key": (LAYERS, WIDTH, HEADS, WIDTH // HEADS),
        "value": (LAYERS, WIDTH, HEADS, WIDTH // HEADS),
        "out": (LAYERS, HEADS, WIDTH // HEADS, WIDTH),
        "up": (LAYERS, WIDTH, 4 * WIDTH),
        "down": (LAYERS, 4 * WIDTH, WIDTH),
    }
    keys = jax.random.split(key, len(shapes))
    draw = jax.random.normal
    return {n: draw(k, s) * WIDTH**-0.5 for (n, s), k in zip(shapes.items(), keys, strict=True)}


def normalized(x: jax.Array) -> jax.Array:
    """Layer norm without weights."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def layer(keep, x: jax.Array, w: Weights) -> tuple[jax.Array, None]:
    """Attention to what came before, then a hidden layer; ``keep`` says how ``x`` is cut."""
    y = normalized(x)
    q, k, v = (jnp.einsum("btd,dhe->bthe", y, w[n]) for n in ("query", "key", "value"))
    scores = jnp.einsum("bthe,bshe->bhts", q, k) * (WIDTH // HEADS) ** -0.5
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    mixed = jnp.einsum("bhts,bshe->bthe", weights, v)
    x = keep(x + jnp.einsum("bthe,hed->btd", mixed, w["out"]))
    hidden = jax.nn.gelu(normalized(x) @ w["up"])
    return keep(x + hidden @ w["down"]), None


def loss(keep, weights: Weights, words: jax.Array) -> jax.Array:
    """Mean cross entropy of each next word."""
    x = keep(weights["embedding"][words] + weights["position"])
    stacked = {n: w for n, w in weights.items() if n not in ("embedding", "position")}
    x, _ = jax.lax.scan(partial(layer, keep), x, stacked)
    scores = jax.nn.log_softmax(normalized(x) @ weights["embedding"].T)
    following = jnp.roll(words, -1, axis=1)
    return -jnp.take_along_axis(scores, following[..., None], -1)[..., 0].mean()


def step(keep, state, words: jax.Array):
    """One step of Adam."""
    weights, first, second, count = state
    value, gradients = jax.value_and_grad(partial(loss, keep))(weights, words)
    count = count + 1
    mix = jax.tree.map
    first = mix(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = mix(lambda m, g: 0.99 * m + 0.01 * g * g, second, gradients)

    def moved(w, m, v):
        return w - RATE * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-8)

    return (mix(moved, weights, first, second), first, second, count), value


def layouts(mesh: Mesh) -> dict[str, tuple[dict[str, P], P, P]]:
    """For each way: weights, words and activations, as axes of a mesh of 4 x 2."""
    tensor = {
        "query": P(None, None, "x"), "key": P(None, None, "x"), "value": P(None, None, "x"),
        "out": P(None, "x"), "up": P(None, None, "x"), "down": P(None, "x"),
    }  # fmt: skip
    parts = {
        "embedding": P(("x", "y")), "position": P(("x", "y")), "query": P(None, ("x", "y")),
        "key": P(None, ("x", "y")), "value": P(None, ("x", "y")), "out": P(None, ("x", "y")),
        "up": P(None, ("x", "y")), "down": P(None, ("x", "y")),
    }  # fmt: skip
    both = ("x", "y")
    return {
        "data": ({}, P(both), P(both)),
        "tensor": (tensor, P("y"), P("y")),
        "sequence": ({}, P("y", "x"), P("y", "x")),
        "optimiser": (parts, P(both), P(both)),
    }


def prepared(
    key: jax.Array, way: tuple[dict[str, P], P, P] | None, mesh: Mesh | None, donate: bool = True
):
    """The compiled step, its first state and the words; on the first device where there is no mesh.

    The step takes and gives the state, and gives the loss; ``donate`` lets it reuse the memory.
    """
    words = np.random.default_rng(0).integers(0, WORDS, (BATCH, LENGTH)).astype(np.int32)
    weights = initial_weights(key)
    first, second = ({n: jnp.zeros_like(w) for n, w in weights.items()} for _ in range(2))
    state = (weights, first, second, jnp.zeros((), jnp.int32))
    keep, out = _as_it_is, None
    if way is not None and mesh is not None:
        cuts, of_words, of_activations = way
        place = {n: NamedSharding(mesh, cuts.get(n, P())) for n in weights}
        whole = NamedSharding(mesh, P())
        out = (place, place, place, whole), whole
        state = jax.device_put(state, out[0])
        words = jax.device_put(words, NamedSharding(mesh, of_words))
        keep = partial(
            jax.lax.with_sharding_constraint, shardings=NamedSharding(mesh, of_activations)
        )
    run = jax.jit(partial(step, keep), donate_argnums=0 if donate else (), out_shardings=out)
    return run, state, words


def train(key: jax.Array, steps: int, way: tuple[dict[str, P], P, P] | None, mesh: Mesh | None):
    """Losses of some steps; on the first device alone where there is no mesh."""
    run, state, words = prepared(key, way, mesh)
    losses = []
    for _ in range(steps):
        state, value = run(state, words)
        losses.append(float(value))
    return losses


def _as_it_is(x: jax.Array) -> jax.Array:
    return x


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="train a transformer, cut in several ways")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--ways", default="data,tensor,sequence,optimiser")
    chosen = parser.parse_args()
    devices = jax.devices()
    if len(devices) < 8:
        raise SystemExit("it takes eight devices: set XLADEV_CPU_DEVICES=8")
    mesh = Mesh(np.array(devices[:8]).reshape(4, 2), ("x", "y"))
    key = jax.random.key(0)
    alone = train(key, chosen.steps, None, None)
    print(f"{'one device':12}", *(f"{value:.5f}" for value in alone))
    for name in chosen.ways.split(","):
        losses = train(key, chosen.steps, layouts(mesh)[name], mesh)
        print(f"{name:12}", *(f"{value:.5f}" for value in losses))
        np.testing.assert_allclose(losses, alone, rtol=2e-4)


if __name__ == "__main__":
    main()
