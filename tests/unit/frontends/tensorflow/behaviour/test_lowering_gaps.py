"""Operators that TensorFlow lowers only for some attributes run for the others too, on the host."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]


def test_tridiagonal_systems_with_pivoting() -> None:
    """The lowering has no pivoting, which is what callers get who ask for nothing."""
    run_tensorflow(
        """
import numpy as np
import tensorflow as tf
diagonals = np.array([[1, 2, 0], [0, 1, 3], [0, 4, 5]], 'f')
whole = np.array([[0, 1, 0], [4, 1, 2], [0, 5, 3]], 'f')
right = np.array([[1], [2], [3]], 'f')
def solve(d, r):
    return tf.linalg.tridiagonal_solve(d, r)
with tf.device('XLADEV:0'):
    for call in (solve, tf.function(solve)):
        made = call(tf.constant(diagonals), tf.constant(right)).numpy()
        assert np.allclose(made, np.linalg.solve(whole, right), atol=1e-5), made
        d = tf.Variable(diagonals)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(d, tf.constant(right)))
        assert np.isfinite(tape.gradient(loss, d).numpy()).all()
"""
    )
