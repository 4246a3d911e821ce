"""Compares the ways in which TensorFlow compiles a training step for xladev's device.

    python benchmarks/tensorflow_levels.py [--steps 100] [--json]

For each way: how many executables are made, how long they take to be made and a step to be run, and
the loss after all steps, which is the same for all. The device is that of the environment
(docs/how-to/use-tensorflow.md); the plugin is installed.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

DEVICE = "XLADEV:0"
BATCH, FEATURES, HIDDEN, CLASSES = 64, 64, 128, 10
_DRAW = np.random.default_rng(0)
X = _DRAW.normal(size=(BATCH, FEATURES)).astype("f")
Y = _DRAW.integers(0, CLASSES, BATCH).astype(np.int32)
W = [(_DRAW.normal(size=s) * 0.1).astype("f") for s in ((FEATURES, HIDDEN), (HIDDEN, CLASSES))]
Step = Callable[[], float]
made: list[str] = []


def count_executables() -> None:
    """Notes the name of each executable that is made from now on."""
    from xladev.frontends.jax import program

    original = program.JaxProgram.__init__

    def noted(self: Any, compiled: Any, *arguments: Any, **named: Any) -> None:
        made.append(compiled.program.name)
        original(self, compiled, *arguments, **named)

    program.JaxProgram.__init__ = noted  # type: ignore[method-assign]


def _variables() -> list[tf.Variable]:
    return [tf.Variable(w) for w in W]


def _loss(x: Any, y: Any, w: Any, v: Any) -> Any:
    logits = tf.nn.relu(x @ w) @ v
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def _update(x: Any, y: Any, variables: list[tf.Variable]) -> Any:
    with tf.GradientTape() as tape:
        loss = _loss(x, y, *variables)
    for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign_sub(0.1 * slope)
    return loss


def operators() -> Step:
    """Nothing is compiled but each operator."""
    variables, x, y = _variables(), tf.constant(X), tf.constant(Y)
    return lambda: float(_update(x, y, variables))


def function(**how: Any) -> Step:
    """A function of TensorFlow's; by default it runs operator by operator."""
    variables, x, y = _variables(), tf.constant(X), tf.constant(Y)
    call = tf.function(lambda: _update(x, y, variables), **how)
    return lambda: float(call())


def set_jit() -> Step:
    """Clusters of operators in all functions."""
    tf.config.optimizer.set_jit(True)
    return function()


def jit_scope() -> Step:
    """The operators of a scope are one cluster, those of the update too."""
    variables, x, y = _variables(), tf.constant(X), tf.constant(Y)

    @tf.function
    def call() -> Any:
        with tf.xla.experimental.jit_scope():
            return _update(x, y, variables)

    return lambda: float(call())


def session(level: int) -> Step:
    """A session of TensorFlow 1."""
    v1 = tf.compat.v1
    config = v1.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    graph = v1.Graph()
    with graph.as_default(), tf.device(DEVICE):
        variables = [
            v1.get_variable(f"w{i}", initializer=w, use_resource=True) for i, w in enumerate(W)
        ]
        loss = _loss(tf.constant(X), tf.constant(Y), *variables)
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        start = v1.global_variables_initializer()
    opened = v1.Session(graph=graph, config=config)
    opened.run(start)
    return lambda: float(opened.run([loss, step])[0])


def keras(jit_compile: bool) -> Step:
    """A model of Keras."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(HIDDEN, "relu", use_bias=False),
            layers.Dense(CLASSES, use_bias=False),
        ]
    )
    model.set_weights(W)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.1), loss, jit_compile=jit_compile)
    return lambda: float(model.train_on_batch(X, Y))


ON = tf.compat.v1.OptimizerOptions.ON_1
OFF = tf.compat.v1.OptimizerOptions.OFF
LEVELS: dict[str, Callable[[], Step]] = {
    "operators placed by name": operators,
    "tf.function": function,
    "tf.function(jit_compile=True)": lambda: function(jit_compile=True),
    "tf.xla.experimental.jit_scope": jit_scope,
    "session, global_jit_level OFF": lambda: session(OFF),
    "session, global_jit_level ON_1": lambda: session(ON),
    "Keras, jit_compile=False": lambda: keras(False),
    "Keras, jit_compile=True": lambda: keras(True),
    "tf.config.optimizer.set_jit": set_jit,  # last: it is the process's
}


def measure(level: Callable[[], Step], steps: int) -> dict[str, Any]:
    """Executables, seconds until the first step has run, milliseconds a step, losses."""
    before, start = len(made), time.perf_counter()
    with tf.device(DEVICE):
        step = level()
        losses = [step()]
        first = time.perf_counter() - start
        times = []
        for _ in range(steps - 1):
            start = time.perf_counter()
            losses.append(step())
            times.append(time.perf_counter() - start)
    return {
        "executables": len(made) - before,
        "first_step_s": round(first, 2),
        "step_ms": round(1e3 * float(np.median(times)), 2),
        "losses": [losses[0], losses[-1]],
    }


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--level", choices=LEVELS, help="this way alone: it reuses nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    count_executables()
    with tf.device(DEVICE):
        tf.ones(2)  # opens the device
    chosen = [options.level] if options.level else list(LEVELS)
    found = {name: measure(LEVELS[name], options.steps) for name in chosen}
    if options.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        times = f"{row['first_step_s']:6.2f} s {row['step_ms']:8.2f} ms"
        print(f"{name:32} {row['executables']:4} {times}  {row['losses'][-1]:.6f}")


if __name__ == "__main__":
    main()
