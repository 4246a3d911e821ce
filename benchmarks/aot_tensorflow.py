"""What TensorFlow does for `benchmarks/aot.py`: programs as SavedModels and as HLO. Runs in
TensorFlow's own Python.

    python aot_tensorflow.py FOLDER NAME    FOLDER/NAME: model/, program.pb, interface.json
"""

import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

F32 = tf.float32


def softmax_step(w, b, x, y):
    """Softmax regression: one step of gradient descent."""
    with tf.GradientTape() as tape:
        tape.watch([w, b])
        loss = _cross_entropy(x @ w + b, y)
    gw, gb = tape.gradient(loss, [w, b])
    return {"new_w": w - 0.5 * gw, "new_b": b - 0.5 * gb, "loss": loss}


def mlp(w0, w1, w2, x):
    """Three dense layers, forward."""
    return {"logits": tf.nn.relu(tf.nn.relu(x @ w0) @ w1) @ w2}


def cnn_step(k0, k1, w, x, y):
    """Two convolutions with pooling and a dense layer: one step of gradient descent."""
    weights = [k0, k1, w]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        h = tf.nn.relu(tf.nn.conv2d(x, k0, 1, "SAME"))
        h = tf.nn.avg_pool2d(h, 2, 2, "VALID")
        h = tf.nn.relu(tf.nn.conv2d(h, k1, 1, "SAME"))
        h = tf.nn.avg_pool2d(h, 2, 2, "VALID")
        loss = _cross_entropy(tf.reshape(h, [h.shape[0], -1]) @ w, y)
    grads = tape.gradient(loss, weights)
    new = {f"new{n}": v - 0.1 * g for n, (v, g) in enumerate(zip(weights, grads, strict=True))}
    return {**new, "loss": loss}


def transformer(wqkv, wo, w0, w1, x):
    """A transformer block with 4 heads, forward."""
    batch, length, width = x.shape
    heads, size = 4, width // 4
    qkv = tf.reshape(_normal(x) @ wqkv, [batch, length, 3, heads, size])
    q, k, v = (tf.transpose(qkv[:, :, n], [0, 2, 1, 3]) for n in range(3))
    p = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / size**0.5)
    a = tf.reshape(tf.transpose(tf.matmul(p, v), [0, 2, 1, 3]), [batch, length, width])
    x = x + a @ wo
    return {"out": x + tf.nn.gelu(_normal(x) @ w0, approximate=True) @ w1}


def _normal(x):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5)


def _cross_entropy(logits, y):
    hot = tf.one_hot(y, logits.shape[-1])
    return -tf.reduce_mean(tf.reduce_sum(hot * tf.nn.log_softmax(logits), -1))


PROGRAMS = {
    "softmax_step": (softmax_step, {"w": [784, 10], "b": [10], "x": [100, 784], "y": [100]}),
    "mlp": (mlp, {"w0": [784, 512], "w1": [512, 512], "w2": [512, 10], "x": [32, 784]}),
    "cnn_step": (
        cnn_step,
        {"k0": [5, 5, 1, 16], "k1": [5, 5, 16, 32], "w": [1568, 10], "x": [16, 28, 28, 1],
         "y": [16]},
    ),
    "transformer": (
        transformer,
        {"wqkv": [128, 384], "wo": [128, 128], "w0": [128, 512], "w1": [512, 128],
         "x": [4, 64, 128]},
    ),
}  # fmt: skip


def main() -> None:
    """Write one program."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    python, shapes = PROGRAMS[name]
    specs = [
        tf.TensorSpec(dims, tf.int32 if key == "y" else F32, name=key)
        for key, dims in shapes.items()
    ]
    module = tf.Module()
    module.run = tf.function(python, input_signature=specs)
    compiled = tf.function(python, input_signature=specs, jit_compile=True)
    zeros = [tf.zeros(s.shape, s.dtype) for s in specs]
    (folder / name).mkdir(parents=True, exist_ok=True)
    hlo = compiled.experimental_get_compiler_ir(*zeros)(stage="hlo_serialized")
    (folder / name / "program.pb").write_bytes(hlo)
    signatures = {"serving_default": module.run}
    tf.saved_model.save(module, str(folder / name / "model"), signatures=signatures)
    outputs = sorted(module.run.get_concrete_function().structured_outputs)
    facts = {"arguments": list(shapes), "results": outputs, "tensorflow": tf.__version__}
    (folder / name / "interface.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
