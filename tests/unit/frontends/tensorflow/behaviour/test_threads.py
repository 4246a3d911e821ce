"""Operators of several Python threads at once: each gets its own arguments, results and errors."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

TOGETHER = """
import threading
import numpy as np, tensorflow as tf
failures, gate = [], threading.Barrier(4)
def in_thread(work, *arguments):
    def run():
        try:
            gate.wait()
            work(*arguments)
        except BaseException as error:
            failures.append(f'{work.__name__}{arguments}: {type(error).__name__}: {error}')
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
def together(*threads):
    for thread in threads:
        thread.join()
    assert not failures, failures
"""


def test_arguments_on_the_host() -> None:
    """A shape is an argument on the host; threads ask for different ones at once."""
    run_tensorflow(
        TOGETHER
        + """
def shapes(*shape):
    wanted = np.arange(12, dtype='f').reshape(shape)
    with tf.device('XLADEV:0'):
        a = tf.range(12.0)
        for _ in range(200):
            np.testing.assert_array_equal(tf.reshape(a, shape).numpy(), wanted)
together(*(in_thread(shapes, *shape) for shape in ((3, 4), (4, 3), (2, 6), (6, 2))))
"""
    )


def test_the_end_of_a_sequence() -> None:
    """Ends of one thread's pipelines are no errors of others, which have pipelines, too."""
    run_tensorflow(
        TOGETHER
        + """
def ending():
    data = tf.data.Dataset.range(3).map(lambda n: n + 1, num_parallel_calls=2).prefetch(2)
    for _ in range(100):
        assert [int(n) for n in data] == [1, 2, 3]
def training(number):
    numbers = np.full((64, 8), number, 'f')
    data = tf.data.Dataset.from_tensor_slices(numbers).repeat().batch(4).prefetch(2)
    with tf.device('XLADEV:0'):
        w = tf.Variable(tf.ones([8, 3]))
    for x in data.take(100):
        with tf.device('XLADEV:0'):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.reshape(x @ w, [12]))
            np.testing.assert_allclose(loss, 8 * number)
            np.testing.assert_allclose(tape.gradient(loss, w), np.full((8, 3), number / 3), 1e-6)
together(in_thread(ending), in_thread(ending), in_thread(training, 1), in_thread(training, 2))
"""
    )
