"""TensorFlow copies arrays to the host while it holds Python's lock, which the device may want."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]


def test_copies_wait_for_programs_that_run_python() -> None:
    run_tensorflow(
        """
import tensorflow as tf
def chain(n):
    x = tf.reshape(tf.range(n * n, dtype=tf.float32), [n, n]) / n ** 3
    y = x
    for _ in range(5):
        y = y @ x
    return y
with tf.device('XLADEV:0'):
    for n in (3, 30, 200):
        made = chain(n)
        copy = made.cpu()
        assert 'CPU' in copy.device and 'XLADEV' in made.device
        assert copy.numpy().tolist() == made.numpy().tolist()
""",
        "template_npu",
        timeout_s=180,
    )


def test_functions_of_python_in_pipelines() -> None:
    """Their results are copied to the host, where the pipeline is."""
    run_tensorflow(
        """
import tensorflow as tf
def make(i):
    x = tf.fill([50, 50], tf.cast(i, tf.float32))
    return tf.reduce_sum(x @ x @ x)
call = lambda i: tf.py_function(make, [i], tf.float32)
data = tf.data.Dataset.range(4).map(call, num_parallel_calls=2)
total = tf.zeros([])
for value in data.prefetch(2):
    total += tf.reduce_max(tf.zeros([70, 70]) @ tf.zeros([70, 70]) + value)
assert total.numpy() == 50.0 ** 4 * (1 + 8 + 27), total
""",
        "template_npu",
        timeout_s=180,
        XLADEV_TF_DEFAULT="1",
    )
