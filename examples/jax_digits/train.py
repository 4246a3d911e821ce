"""Trains a small network on handwritten digits with JAX; the variable JAX_PLATFORMS says on what.

JAX_PLATFORMS=xladev_cpu python train.py       the CPU of xladev
JAX_PLATFORMS=template_npu python train.py     a simulated accelerator
JAX_PLATFORMS=cpu python train.py              JAX's own CPU, to compare with
"""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

DIGITS = Path(__file__).parents[1] / "mnist_softmax" / "digits.npz"
TEST_IMAGES = 500
BATCH = 100
HIDDEN = 64
CLASSES = 10

Tree: TypeAlias = Any


def read_digits() -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Pixels from 0 to 1 and labels: those to train with, then those to test with."""
    with np.load(DIGITS) as file:
        x = file["images"].reshape(-1, 64).astype(np.float32) / 16
        y = file["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(x))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return tuple(map(jnp.asarray, (x[train], y[train], x[test], y[test])))


def make_weights(key: jax.Array) -> Tree:
    """Two layers."""
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (64, HIDDEN)) / 8,
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(second, (HIDDEN, CLASSES)) / jnp.sqrt(HIDDEN),
        "b2": jnp.zeros(CLASSES),
    }


def scores(weights: Tree, x: jax.Array, key: jax.Array | None = None) -> jax.Array:
    """The network; with a key, a tenth of the hidden values are dropped."""
    hidden = jax.nn.gelu(x @ weights["w1"] + weights["b1"])
    if key is not None:
        hidden *= jax.random.bernoulli(key, 0.9, hidden.shape) / 0.9
    return hidden @ weights["w2"] + weights["b2"]


def loss(weights: Tree, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
    """Mean cross entropy."""
    logs = jax.nn.log_softmax(scores(weights, x, key))
    return -jnp.mean(jnp.take_along_axis(logs, y[:, None], axis=1))


def adam(state: Tree, gradients: Tree, step: jax.Array, rate: float = 3e-3) -> Tree:
    """Weights and moments after one step."""
    weights, mean, square = state
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradients)
    left, right = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
    weights = jax.tree.map(
        lambda w, m, s: w - rate * (m / left) / (jnp.sqrt(s / right) + 1e-8), weights, mean, square
    )
    return weights, mean, square


@jax.jit
def train_once(
    state: Tree, x: jax.Array, y: jax.Array, key: jax.Array, first: jax.Array
) -> tuple[Tree, jax.Array]:
    """One pass over the training set in a random order; the mean loss."""
    batches = len(x) // BATCH
    order = jax.random.permutation(key, len(x))[: batches * BATCH].reshape(batches, BATCH)

    def one_batch(state: Tree, chosen: Any) -> tuple[Tree, jax.Array]:
        number, rows = chosen
        dropout = jax.random.fold_in(key, number)
        value, gradients = jax.value_and_grad(loss)(state[0], x[rows], y[rows], dropout)
        return adam(state, gradients, first + number), value

    state, values = jax.lax.scan(one_batch, state, (jnp.arange(batches), order))
    return state, jnp.mean(values)


@jax.jit
def accuracy(weights: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    """The share of images that the weights name rightly."""
    return jnp.mean(jnp.argmax(scores(weights, x), axis=1) == y)


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--passes", type=int, default=20, help="passes over the training set")
    passes = parser.parse_args().passes
    train_x, train_y, test_x, test_y = read_digits()
    weights = make_weights(jax.random.key(0))
    state = (weights, *(jax.tree.map(jnp.zeros_like, weights) for _ in range(2)))
    for number in range(passes):
        first = jnp.int32(number * (len(train_x) // BATCH))
        state, mean = train_once(state, train_x, train_y, jax.random.key(number), first)
        print(f"pass {number + 1:3}  loss {float(mean):.4f}", flush=True)
    share = float(accuracy(state[0], test_x, test_y))
    print(f"test accuracy {share:.1%} on {jax.default_backend()}")


if __name__ == "__main__":
    main()
