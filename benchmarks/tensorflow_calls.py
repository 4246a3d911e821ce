"""What calls and training steps cost on xladev's TensorFlow device, beside TensorFlow's own CPU.

    python benchmarks/tensorflow_calls.py [--only operator|jitted|step] [--rounds 9] [--json]

Operators run alone, against the CPU's kernels; calls of `tf.function(jit_compile=True)` and
training steps of Keras with `jit_compile=True` against TensorFlow's XLA for the CPU. Both devices
are in one process and take turns; times are medians of rounds, results are compared. The device is
that of the environment (docs/how-to/use-tensorflow.md); the plugin is installed.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

DEVICES = ("CPU:0", "XLADEV:0")
Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One call on each device."""

    kind: str
    """``operator``, ``jitted`` or ``step``."""
    name: str
    build: Callable[[], Call]
    """Makes the call, on the device of the scope; the result is a tensor, or several."""


BARS = {"operator": 1.3, "jitted": 1.1, "step": 1.0}
"""How many times TensorFlow's own time is allowed, by kind."""
CALLS = {"operator": 200, "jitted": 200, "step": 5}
"""Calls of a round, by kind."""


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("f")


def _operator(f: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], Call]:
    def build() -> Call:
        tensors = [tf.identity(a) for a in arrays]
        return lambda: f(*tensors)

    return build


def _jitted(f: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], Call]:
    return _operator(tf.function(f, jit_compile=True), *arrays)


def _layers(x: Any, w: Any, v: Any) -> Any:
    return tf.nn.softmax(tf.nn.relu(x @ w) @ v)


def _assigned() -> Call:
    variable, step = tf.Variable(_numbers(1024)), tf.identity(_numbers(1024))
    return tf.function(lambda: variable.assign_sub(0.001 * step), jit_compile=True)


ONE, ROW, SQUARE = _numbers(), _numbers(1024), _numbers(32, 32)
VECTORS = [_numbers(8)] * 5
OPERATORS: dict[str, Callable[[], Call]] = {
    "add, scalar": _operator(tf.add, ONE, ONE),
    "add, 1024": _operator(tf.add, ROW, ROW),
    "tanh, 1024": _operator(tf.tanh, ROW),
    "reduce_sum, 32 x 32": _operator(tf.reduce_sum, SQUARE),
    "matmul, 32 x 32": _operator(tf.matmul, SQUARE, SQUARE),
    "transpose, 32 x 32": _operator(tf.transpose, SQUARE),
    "concat, 2 x 1024": _operator(lambda a, b: tf.concat([a, b], 0), ROW, ROW),
    "softmax, 32 x 32": _operator(tf.nn.softmax, SQUARE),
}
JITTED: dict[str, Callable[[], Call]] = {
    "x + 1, scalar": _jitted(lambda x: x + 1, ONE),
    "5 in, 3 out, of 8": _jitted(lambda a, b, c, d, e: (a + b, c * d, e - a), *VECTORS),
    "assign to a variable, 1024": _assigned,
    "two layers, 64 x 64": _jitted(_layers, *[_numbers(64, 64)] * 3),
}


def _trained(model: Any, x: np.ndarray, y: np.ndarray) -> Call:
    """A training step of a model of Keras, which reads the loss."""
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.01), loss, jit_compile=True)
    return lambda: model.train_on_batch(x, y)


def _classes(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 10, shape).astype(np.int32)


def _convolutions() -> Call:
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    _start(model)
    return _trained(model, _numbers(32, 28, 28, 1), _classes(32))


def _transformer(width: int = 64, length: int = 32, batch: int = 16) -> Call:
    """Two blocks of attention and layers, of four heads."""
    layers = tf.keras.layers
    tokens = layers.Input((length,), dtype="int32")
    x = layers.Embedding(100, width)(tokens)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, width // 4)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization()(x + attended)
        inner = layers.Dense(4 * width, "gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(width)(inner))
    model = tf.keras.Model(tokens, layers.Dense(10)(x))
    _start(model)
    return _trained(model, _classes(batch, length), _classes(batch, length))


def _start(model: Any) -> None:
    """The same weights on each device, whose random numbers differ."""
    draw = np.random.default_rng(2)
    model.set_weights([draw.normal(0, 0.05, w.shape).astype("f") for w in model.get_weights()])


STEPS = {
    "CNN, 32 images of 28 x 28": _convolutions,
    "transformer, 16 x 32 tokens": _transformer,
}
CASES = [
    Case(kind, name, build)
    for kind, builds in (("operator", OPERATORS), ("jitted", JITTED), ("step", STEPS))
    for name, build in builds.items()
]


def _read(result: Any) -> list[np.ndarray]:
    return [np.asarray(r) for r in tf.nest.flatten(result)]


def _timed(call: Call, device: str, count: int) -> tuple[float, float]:
    """Microseconds of one call: elapsed, and of all processors."""
    with tf.device(device):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            result = call()
        _read(result)
        return (
            (time.perf_counter() - wall) / count * 1e6,
            (time.process_time() - cpu) / count * 1e6,
        )


def _started(case: Case, device: str) -> tuple[Call, list[np.ndarray]]:
    """The call, compiled, and what it gives first."""
    with tf.device(device):
        call = case.build()
        return call, _read(call())


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """Medians of both devices, in microseconds, and what ours takes of the other's.

    Raises:
        AssertionError: the devices' first results differ.
    """
    calls, first = zip(*(_started(case, device) for device in DEVICES), strict=True)
    for a, b in zip(*first, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    seen = list(_rounds(calls, CALLS[case.kind], rounds + 1))[1:]  # the first warms up
    us = [[statistics.median(s[d][k] for s in seen) for d in range(2)] for k in range(2)]
    (host, ours), (host_cpu, our_cpu) = us
    return {"kind": case.kind, "name": case.name, "tensorflow_us": host, "xladev_us": ours,
            "ratio": ours / host, "bar": BARS[case.kind], "tensorflow_cpu_us": host_cpu,
            "xladev_cpu_us": our_cpu, "cpu_ratio": our_cpu / host_cpu}  # fmt: skip


def _rounds(
    calls: tuple[Call, ...], count: int, rounds: int
) -> Iterator[list[tuple[float, float]]]:
    for _ in range(rounds):
        yield [_timed(call, device, count) for call, device in zip(calls, DEVICES, strict=True)]


def main() -> None:
    """Prints a table for a page of docs/, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=BARS, help="this kind alone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [c for c in CASES if options.only in (None, c.kind)]
    found = [measure(case, options.rounds) for case in chosen]
    if options.json:
        print(json.dumps({"load": os.getloadavg()[0], "rows": found}))
        return
    print("| | TensorFlow, us | xladev, us | ratio | bar | of processor time |")
    print("|---|--:|--:|--:|--:|--:|")
    for row in found:
        times = f"{row['tensorflow_us']:.1f} | {row['xladev_us']:.1f} | {row['ratio']:.2f}"
        print(f"| {row['kind']}: {row['name']} | {times} | {row['bar']} | {row['cpu_ratio']:.2f} |")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
