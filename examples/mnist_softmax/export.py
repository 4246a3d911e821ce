"""Exports the training step and the predictor from JAX (`pip install xladev[jax]`) to programs/.

The exported files are in the repository: run this only to change the model. For each number of
features (64 for the 8x8 digits, 784 for MNIST) it writes, as HloModuleProto (.pb) and HLO text:

    step_N      (w f32[N,10], b f32[10], x f32[100,N], y s32[100]) -> (w, b, loss f32[])
    predict_N   (w f32[N,10], b f32[10], x f32[100,N]) -> (digit s32[100],)
"""

from pathlib import Path

import jax
import jax.numpy as jnp

FOLDER = Path(__file__).parent / "programs"
FEATURES = (64, 784)
CLASSES = 10
BATCH = 100
LEARNING_RATE = 0.5


def loss(w: jax.Array, b: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean cross entropy of the labels `y` under softmax(x @ w + b)."""
    log_probability = jax.nn.log_softmax(x @ w + b)
    return -jnp.mean(jnp.take_along_axis(log_probability, y[:, None], axis=1))


def step(
    w: jax.Array, b: jax.Array, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One step of gradient descent; the loss is the one before the step."""
    value, (dw, db) = jax.value_and_grad(loss, argnums=(0, 1))(w, b, x, y)
    return w - LEARNING_RATE * dw, b - LEARNING_RATE * db, value


def predict(w: jax.Array, b: jax.Array, x: jax.Array) -> tuple[jax.Array]:
    """The most probable digit of each row of `x`."""
    return (jnp.argmax(x @ w + b, axis=1).astype(jnp.int32),)


def export(name: str, function: jax.stages.Wrapped, *arguments: jax.ShapeDtypeStruct) -> None:
    """Write the unoptimised HLO of `function` as NAME.pb and NAME.hlo."""
    computation = function.lower(*arguments).compiler_ir("hlo")
    (FOLDER / f"{name}.pb").write_bytes(computation.as_serialized_hlo_module_proto())
    (FOLDER / f"{name}.hlo").write_text(computation.as_hlo_text())
    print(f"wrote programs/{name}.pb and .hlo")


def main() -> None:
    """Export both programs for each number of features."""
    # Neither the folder this runs in nor the call stack belongs in the program.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=mnist_softmax/)")
    jax.config.update("jax_traceback_in_locations_limit", 1)
    for features in FEATURES:
        w = jax.ShapeDtypeStruct((features, CLASSES), jnp.float32)
        b = jax.ShapeDtypeStruct((CLASSES,), jnp.float32)
        x = jax.ShapeDtypeStruct((BATCH, features), jnp.float32)
        y = jax.ShapeDtypeStruct((BATCH,), jnp.int32)
        export(f"step_{features}", jax.jit(step), w, b, x, y)
        export(f"predict_{features}", jax.jit(predict), w, b, x)


if __name__ == "__main__":
    main()
