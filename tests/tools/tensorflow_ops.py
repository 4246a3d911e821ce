"""Compares TensorFlow's operators on its CPU with those on xladev's device; a program of its own.

    python tests/tools/tensorflow_ops.py AREA [PART OF]

prints a JSON object: which cases differ and how, and how many there were. Each case is run operator
by operator, and compiled as one function.
"""

import json
import sys
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

DEVICE = "XLADEV:0"
Case = Callable[..., Any]

_DRAW = np.random.default_rng(7)
A = _DRAW.normal(size=(4, 6)).astype("f")
B = _DRAW.normal(size=(6, 5)).astype("f")
P = np.abs(A) + 0.5
U = _DRAW.uniform(-0.9, 0.9, size=(4, 6)).astype("f")
N = _DRAW.integers(-9, 9, size=(4, 6)).astype(np.int32)
M = N.astype(np.int64)
S = (_DRAW.normal(size=(3, 4, 4)) + 5 * np.eye(4)).astype("f")
SPD = (S @ S.transpose(0, 2, 1) + np.eye(4)).astype("f")
X = _DRAW.normal(size=(2, 8, 8, 3)).astype("f")
K = _DRAW.normal(size=(3, 3, 3, 4)).astype("f")
V = _DRAW.normal(size=(10,)).astype("f")
IDS = np.array([0, 1, 1, 2], np.int32)

UNARY = [
    "abs",
    "negative",
    "sign",
    "square",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "atan",
    "erf",
    "erfc",
    "sigmoid",
    "floor",
    "ceil",
    "rint",
    "softplus",
    "softsign",
    "is_nan",
    "is_inf",
]
POSITIVE = ["sqrt", "rsqrt", "log", "log1p", "reciprocal", "lgamma", "digamma", "acosh"]
INSIDE = ["asin", "acos", "atanh", "erfinv"]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "squared_difference",
    "atan2",
    "less",
    "equal",
]
INTEGER = ["add", "subtract", "multiply", "floordiv", "floormod", "maximum", "minimum", "greater"]
REDUCTIONS = [
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_logsumexp",
    "reduce_variance",
]


def _reduced(reduction: Case) -> Case:
    return lambda x: (reduction(x), reduction(x, 0), reduction(x, -1, True))


_MATH: dict[str, tuple[Case, tuple[Any, ...]]] = {
    "pow": (tf.pow, (P, A)),
    "bool": (
        lambda n: (
            tf.reduce_any(n > 0, 1),
            tf.reduce_all(n < 9),
            tf.math.logical_xor(n > 0, n < 4),
        ),
        (N,),
    ),
    "bits": (
        lambda n: (
            tf.bitwise.bitwise_and(n, 6),
            tf.bitwise.left_shift(n, 2),
            tf.bitwise.invert(n),
        ),
        (N,),
    ),
    "argmax": (lambda x: (tf.argmax(x, 1), tf.argmin(x, 0)), (A,)),
    "cumsum": (
        lambda x: (tf.cumsum(x, 1), tf.cumsum(x, 0, True, True), tf.math.cumprod(x)),
        (A,),
    ),
    "top_k": (lambda x: tf.math.top_k(x, 3), (A,)),
    "bincount": (lambda n: tf.math.bincount(n, minlength=4, maxlength=4), (IDS,)),
    "segment": (
        lambda x, i: (
            tf.math.unsorted_segment_sum(x, i, 4),
            tf.math.unsorted_segment_max(x, i, 3),
        ),
        (A, IDS),
    ),
    "in_top_k": (lambda x: tf.math.in_top_k(IDS, x, 2), (A,)),
    "cast": (
        lambda x: [tf.cast(x, t) for t in (tf.int32, tf.float64, tf.bool, tf.complex64)],
        (A,),
    ),
    "complex": (
        lambda x: (
            tf.abs(tf.complex(x, x)),
            tf.math.angle(tf.complex(x, x)),
            tf.math.conj(tf.complex(x, x)),
        ),
        (A,),
    ),
    "accumulate": (lambda x: tf.math.accumulate_n([x, x, x]), (A,)),
    "clip": (lambda x: (tf.clip_by_value(x, -1, 1), tf.clip_by_norm(x, 1.0)), (A,)),
    "int64": (lambda m: (m * m, tf.reduce_sum(m), m // 3), (M,)),
    "bessel": (lambda x: (tf.math.bessel_i0e(x), tf.math.bessel_i1e(x)), (A,)),
    "igamma": (
        lambda x: (tf.math.igamma(x, x), tf.math.betainc(x, x, 0.5 * tf.ones_like(x))),
        (P,),
    ),
    "zeta": (lambda x: tf.math.zeta(x + 1.0, x), (P,)),
}


def _math() -> dict[str, tuple[Case, tuple[Any, ...]]]:
    cases: dict[str, tuple[Case, tuple[Any, ...]]] = {}
    for name in UNARY:
        cases[name] = getattr(tf.math, name), (A,)
    for name in POSITIVE:
        cases[name] = getattr(tf.math, name), (P + 1,)
    for name in INSIDE:
        cases[name] = getattr(tf.math, name), (U,)
    for name in BINARY:
        cases[name] = getattr(tf.math, name), (A, P)
    for name in INTEGER:
        cases[f"int {name}"] = getattr(tf.math, name), (N, np.abs(N) + 1)
    for name in REDUCTIONS:
        cases[name] = _reduced(getattr(tf.math, name)), (A,)
    return cases | _MATH


_ARRAY: dict[str, tuple[Case, tuple[Any, ...]]] = {
    "reshape": (lambda x: tf.reshape(x, [3, -1]), (A,)),
    "transpose": (lambda x: tf.transpose(x, [2, 0, 3, 1]), (X,)),
    "concat": (lambda x: (tf.concat([x, x], 0), tf.concat([x, x], 1)), (A,)),
    "stack": (lambda x: (tf.stack([x, x], 1), tf.unstack(x, axis=1)), (A,)),
    "split": (lambda x: (tf.split(x, 3, 1), tf.split(x, [1, 3], 0)), (A,)),
    "slice": (lambda x: (x[1:3, ::2], x[..., -1], x[:, tf.newaxis, 2], x[::-1]), (A,)),
    "pad": (
        lambda x: (tf.pad(x, [[1, 0], [2, 1]]), tf.pad(x, [[1, 1], [1, 1]], "REFLECT")),
        (A,),
    ),
    "tile": (lambda x: (tf.tile(x, [2, 1]), tf.repeat(x, 2, 1)), (A,)),
    "gather": (
        lambda x: (
            tf.gather(x, IDS),
            tf.gather(x, [2, 0], axis=1),
            tf.gather_nd(x, [[0, 1], [3, 5]]),
        ),
        (A,),
    ),
    "scatter": (
        lambda x: (
            tf.scatter_nd(IDS[:, None], x, [5, 6]),
            tf.tensor_scatter_nd_update(x, [[1]], x[:1]),
        ),
        (A,),
    ),
    "where": (lambda x: tf.where(x > 0, x, -x), (A,)),
    "one_hot": (lambda n: tf.one_hot(n, 4), (IDS,)),
    "reverse": (
        lambda x: (tf.reverse(x, [1]), tf.roll(x, 2, 1), tf.reverse_sequence(x, IDS + 1, 1)),
        (A,),
    ),
    "fill": (
        lambda x: (
            tf.fill([2, 3], x[0, 0]),
            tf.zeros_like(x),
            tf.range(7),
            tf.linspace(0.0, 1.0, 5),
        ),
        (A,),
    ),
    "broadcast": (
        lambda x: (tf.broadcast_to(x[0], [3, 6]), tf.expand_dims(x, 1), tf.squeeze(x[:, :1])),
        (A,),
    ),
    "band": (
        lambda x: (
            tf.linalg.band_part(x, 1, 0),
            tf.linalg.diag_part(x[:4, :4]),
            tf.linalg.diag(x[0]),
        ),
        (A,),
    ),
    "sort": (
        lambda x: (
            tf.sort(x, 1),
            tf.argsort(x, 1, "DESCENDING"),
            tf.searchsorted(tf.sort(x, 1), x),
        ),
        (A,),
    ),
    "space": (
        lambda x: (tf.nn.space_to_depth(x, 2), tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]])),
        (X,),
    ),
    "meshgrid": (lambda x: tf.meshgrid(x[0], x[:, 0]), (A,)),
    "dtypes": (
        lambda x: [
            tf.concat([tf.cast(x, t)] * 2, 0)
            for t in (tf.float16, tf.bfloat16, tf.float64, tf.int8, tf.uint8, tf.int64)
        ],
        (P,),
    ),
    "shape": (lambda x: (tf.shape(x), tf.size(x), tf.rank(x)), (A,)),
    "bitcast": (lambda x: tf.bitcast(x, tf.int32), (A,)),
    "empty": (lambda x: (tf.concat([x[:0], x], 0), tf.reduce_sum(x[:0], 0)), (A,)),
}


def _dynamic() -> dict[str, tuple[Case, tuple[Any, ...]]]:
    """What has sizes that depend on values: compiled functions give other ones."""
    return {
        "nonzero": (lambda x: tf.where(x > 0), (A,)),
        "boolean_mask": (lambda x: tf.boolean_mask(x, x > 0) * 2, (A,)),
        "unique": (lambda n: tf.unique(tf.reshape(n, [-1])), (N,)),
        "partition": (lambda x: tf.dynamic_partition(x, IDS, 3), (A,)),
        "stitch": (lambda x: tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], x[2:]]), (A,)),
        "ragged": (lambda x: tf.RaggedTensor.from_row_lengths(x, [1, 3]).to_tensor() + 1, (A,)),
        "string": (lambda n: tf.strings.length(tf.strings.as_string(n)), (N,)),
        "setdiff": (lambda n: tf.sets.difference(n, n[:, :2]).values, (N,)),
    }


def _nn() -> dict[str, tuple[Case, tuple[Any, ...]]]:
    def pooled(x: Any) -> Any:
        return tf.nn.max_pool2d(x, 2, 2, "SAME"), tf.nn.avg_pool2d(x, 3, 2, "VALID")

    def normed(x: Any) -> Any:
        return tf.nn.batch_normalization(x, x[0], tf.ones_like(x[0]), None, None, 1e-3)

    return {
        "activations": (
            lambda x: [
                getattr(tf.nn, n)(x)
                for n in ("relu", "relu6", "elu", "selu", "gelu", "silu", "leaky_relu")
            ],
            (A,),
        ),
        "softmax": (lambda x: (tf.nn.softmax(x), tf.nn.log_softmax(x, 0)), (A,)),
        "cross_entropy": (
            lambda x: (
                tf.nn.sparse_softmax_cross_entropy_with_logits(IDS, x),
                tf.nn.sigmoid_cross_entropy_with_logits(tf.zeros_like(x), x),
            ),
            (A,),
        ),
        "conv2d": (
            lambda x, k: (
                tf.nn.conv2d(x, k, 1, "SAME"),
                tf.nn.conv2d(x, k, 2, "VALID"),
                tf.nn.conv2d(x, k, 1, "SAME", dilations=2),
            ),
            (X, K),
        ),
        "depthwise": (lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME"), (X, K)),
        "transpose conv": (
            lambda x, k: tf.nn.conv2d_transpose(
                x, tf.transpose(k, [0, 1, 3, 2]), [2, 16, 16, 4], 2
            ),
            (X, K),
        ),
        "pool": (pooled, (X,)),
        "bias": (lambda x: tf.nn.bias_add(x, [1.0, 2.0, 3.0]), (X,)),
        "lrn": (lambda x: tf.nn.local_response_normalization(x, 1), (X,)),
        "moments": (
            lambda x: (tf.nn.moments(x, [0, 1]), tf.nn.l2_normalize(x, -1), tf.nn.l2_loss(x)),
            (X,),
        ),
        "batch norm": (normed, (A,)),
        "embedding": (lambda x: tf.nn.embedding_lookup(x, [[0, 2], [3, 3]]), (A,)),
        "resize": (
            lambda x: (tf.image.resize(x, [16, 16]), tf.image.resize(x, [4, 4], "nearest")),
            (X,),
        ),
        "image": (
            lambda x: (
                tf.image.flip_left_right(x),
                tf.image.adjust_contrast(x, 2.0),
                tf.image.rgb_to_grayscale(x),
            ),
            (X,),
        ),
    }


def _linalg() -> dict[str, tuple[Case, tuple[Any, ...]]]:
    return {
        "matmul": (
            lambda a, b: (a @ b, tf.matmul(a, a, transpose_b=True), tf.linalg.matvec(a, b[:, 0])),
            (A, B),
        ),
        "batch matmul": (lambda s: tf.matmul(s, s, adjoint_a=True), (S,)),
        "einsum": (
            lambda a, s: (tf.einsum("ij,kj->ik", a, a), tf.einsum("bij,bjk->bik", s, s)),
            (A, S),
        ),
        "tensordot": (lambda a, b: tf.tensordot(a, b, 1), (A, B)),
        "cholesky": (tf.linalg.cholesky, (SPD,)),
        "solve": (lambda s: (tf.linalg.solve(s, s[:, :, :2]), tf.linalg.inv(s)), (S,)),
        "determinant": (tf.linalg.det, (S,)),
        "triangular": (
            lambda s: tf.linalg.triangular_solve(tf.linalg.band_part(s, -1, 0), s),
            (S,),
        ),
        "eigenvalues": (lambda s: tf.linalg.eigvalsh(s), (SPD,)),
        "singular values": (lambda s: tf.linalg.svd(s, compute_uv=False), (S,)),
        "qr": (lambda s: (lambda q, r: (q @ r, tf.abs(r)))(*tf.linalg.qr(s)), (S,)),
        "fft": (
            lambda x: (
                tf.abs(tf.signal.rfft(x)),
                tf.signal.irfft(tf.signal.rfft(x)),
                tf.abs(tf.signal.fft2d(tf.complex(x, x))),
            ),
            (A,),
        ),
        "norm": (
            lambda a: (
                tf.norm(a),
                tf.norm(a, 1, 1),
                tf.linalg.trace(a[:4, :4]),
                tf.linalg.cross(a[:, :3], a[:, 3:]),
            ),
            (A,),
        ),
        "double": (lambda s: tf.linalg.solve(tf.cast(s, tf.float64), tf.cast(s, tf.float64)), (S,)),
    }


def _control() -> dict[str, tuple[Case, tuple[Any, ...]]]:
    def loop(x: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < 5, lambda i, y: (i + 1, y * 0.9 + x), (0, x), maximum_iterations=5
        )[1]

    def lists(x: Any) -> Any:
        found = tf.TensorArray(tf.float32, 4)
        for i in tf.range(4):
            found = found.write(i, x[i] * tf.cast(i, tf.float32))
        return found.stack()

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.tanh(loop(x)))
        return tape.gradient(y, x)

    def gradients(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(lists(x) ** 2)
        return tape.gradient(y, x)

    return {
        "while": (loop, (A,)),
        "cond": (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1), (A,)),
        "switch": (
            lambda x: tf.switch_case(tf.constant(2), [lambda: x, lambda: x + 1, lambda: x * 3]),
            (A,),
        ),
        "lists": (lists, (A,)),
        "gradient of while": (gradient, (A,)),
        "gradient of lists": (gradients, (A,)),
        "map_fn": (lambda x: tf.map_fn(lambda r: tf.reduce_sum(r) * r, x), (A,)),
        "scan": (lambda x: tf.scan(lambda a, r: a + r, x), (A,)),
        "vectorized_map": (lambda x: tf.vectorized_map(lambda r: r * r, x), (A,)),
        "custom gradient": (lambda x: tf.stop_gradient(x) + tf.identity(x), (A,)),
    }


def _random() -> dict[str, tuple[Case, tuple[Any, ...]]]:
    seed = np.array([3, 5], np.int32)
    return {
        "stateless uniform": (lambda s: tf.random.stateless_uniform([8], s), (seed,)),
        "stateless normal": (lambda s: tf.random.stateless_normal([8], s), (seed,)),
        "stateless integers": (
            lambda s: tf.random.stateless_uniform([8], s, 0, 99, tf.int32),
            (seed,),
        ),
        "stateless split": (lambda s: tf.random.split(s, 3), (seed,)),
        "stateless truncated": (lambda s: tf.random.stateless_truncated_normal([8], s), (seed,)),
    }


AREAS = {
    "math": _math,
    "array": lambda: _ARRAY,
    "dynamic": _dynamic,
    "nn": _nn,
    "linalg": _linalg,
    "control": _control,
    "random": _random,
}
NOT_COMPILED = {
    "dynamic",
    "determinant",  # TensorFlow does not lower it
}
"""An area, and cases, that tf.function(jit_compile=True) is not asked for."""


def run(
    case: Case, arguments: Iterable[Any], device: str, compiled: bool | None
) -> list[np.ndarray]:
    """Results of a case on a device, operator by operator or as a function, compiled or not.

    Of two calls: what runs alone is executed in another way the second time.
    """
    with tf.device(device):
        call = tf.function(case, jit_compile=compiled) if compiled is not None else case
        calls = [call(*map(tf.constant, arguments)) for _ in range(2)]
        return [value.numpy() for value in tf.nest.flatten(calls, expand_composites=True)]


def difference(found: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """What is wrong with results; empty if nothing."""
    if len(found) != len(wanted):
        return f"{len(found)} results for {len(wanted)}"
    for i, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{i}: {mine.dtype}{mine.shape} for {theirs.dtype}{theirs.shape}"
        if theirs.dtype.kind in "fc" or theirs.dtype.name == "bfloat16":
            coarse = theirs.dtype.itemsize == 2
            mine, theirs = (a.astype(np.complex128) for a in (mine, theirs))
            if not np.allclose(mine, theirs, 1e-2 if coarse else 2e-4, 2e-5, equal_nan=True):
                return f"{i}: off by {np.nanmax(np.abs(mine - theirs)):.3g}"
        elif not np.array_equal(mine, theirs):
            return f"{i}: {np.count_nonzero(mine != theirs)} differ"
    return ""


def compare(area: str, part: int, parts: int) -> dict[str, Any]:
    """The cases of an area that the part has, on the device against TensorFlow's CPU."""
    wrong: dict[str, str] = {}
    count = 0
    for name, (case, arguments) in AREAS[area]().items():
        if zlib.crc32(name.encode()) % parts != part % parts:
            continue
        # XLA draws other random numbers than TensorFlow's own operators: the CPU's XLA is asked.
        wanted = run(case, arguments, "CPU:0", True if area == "random" else None)
        for compiled in (None, False, True):
            if compiled and NOT_COMPILED & {area, name}:
                continue
            count += 1
            key = f"{name} ({ {None: 'eager', False: 'function', True: 'jit_compile'}[compiled] })"
            try:
                said = difference(run(case, arguments, DEVICE, compiled), wanted)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
                said = f"{type(error).__name__}: {str(error)[:400]}"
            if said:
                wrong[key] = said
    return {"count": count, "wrong": wrong}


if __name__ == "__main__":
    area, part, parts = sys.argv[1], *map(int, sys.argv[2:] or ("0", "1"))
    print(json.dumps(compare(area, part, parts)))
