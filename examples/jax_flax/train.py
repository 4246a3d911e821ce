"""Trains a convolutional network on digits with Flax and optax; JAX_PLATFORMS says on what.

JAX_PLATFORMS=xladev_cpu python train.py       the CPU of xladev
JAX_PLATFORMS=template_npu python train.py     a simulated accelerator

Needs ``pip install 'xladev[jax-examples]' xladev-pjrt``.
"""

import argparse
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

DIGITS = Path(__file__).parents[1] / "mnist_softmax" / "digits.npz"
TEST_IMAGES = 500
BATCH = 100
CLASSES = 10

Tree: TypeAlias = Any
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(5e-3))


class Network(nn.Module):
    """Convolution, normalisation over the batch, dropout and two dense layers."""

    @nn.compact
    def __call__(self, images: jax.Array, *, train: bool) -> jax.Array:
        """Scores ``f32[n, 10]`` of images ``f32[n, 8, 8, 1]``."""
        x = nn.Conv(16, (3, 3), use_bias=False)(images)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.LayerNorm()(x.reshape(len(x), -1))
        x = nn.gelu(nn.Dense(32)(x))
        return nn.Dense(CLASSES)(nn.Dropout(0.1, deterministic=not train)(x))


def read_digits() -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Images from 0 to 1 and labels: those to train with, then those to test with."""
    with np.load(DIGITS) as file:
        x = file["images"].reshape(-1, 8, 8, 1).astype(np.float32) / 16
        y = file["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(x))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return tuple(map(jnp.asarray, (x[train], y[train], x[test], y[test])))


def loss(weights: Tree, averages: Tree, x: jax.Array, y: jax.Array, key: jax.Array) -> Any:
    """Mean cross entropy, and the new averages of the normalisation."""
    scores, updated = Network().apply(
        {"params": weights, "batch_stats": averages}, x, train=True,
        rngs={"dropout": key}, mutable=["batch_stats"],
    )  # fmt: skip
    values = optax.softmax_cross_entropy_with_integer_labels(scores, y)
    return jnp.mean(values), updated["batch_stats"]


@jax.jit
def train_step(state: Tree, x: jax.Array, y: jax.Array, key: jax.Array) -> tuple[Tree, jax.Array]:
    """State after one batch, and its loss."""
    weights, averages, moments = state
    gradient = jax.value_and_grad(loss, has_aux=True)
    (value, averages), gradients = gradient(weights, averages, x, y, key)
    updates, moments = OPTIMIZER.update(gradients, moments, weights)
    return (optax.apply_updates(weights, updates), averages, moments), value


@jax.jit
def accuracy(state: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    """The share of images that the network names rightly."""
    variables = {"params": state[0], "batch_stats": state[1]}
    return jnp.mean(jnp.argmax(Network().apply(variables, x, train=False), axis=1) == y)


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--passes", type=int, default=8, help="passes over the training set")
    passes = parser.parse_args().passes
    train_x, train_y, test_x, test_y = read_digits()
    variables = jax.jit(Network().init, static_argnames="train")(
        jax.random.key(0), train_x[:1], train=False
    )
    weights = variables["params"]
    state = (weights, variables["batch_stats"], OPTIMIZER.init(weights))
    for number in range(passes):
        key, shuffling = jax.random.split(jax.random.key(number + 1))
        order = jax.random.permutation(shuffling, len(train_x))
        for first in range(0, len(train_x) - BATCH + 1, BATCH):
            rows = order[first : first + BATCH]
            step_key = jax.random.fold_in(key, first)
            state, value = train_step(state, train_x[rows], train_y[rows], step_key)
        print(f"pass {number + 1:3}  loss {float(value):.4f}", flush=True)
    share = float(accuracy(state, test_x, test_y))
    print(f"test accuracy {share:.1%} on {jax.default_backend()}")


if __name__ == "__main__":
    main()
