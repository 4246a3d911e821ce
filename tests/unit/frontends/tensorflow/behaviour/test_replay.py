"""Operators that run alone, executed again without TensorFlow's lookup."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

BEGIN = """
import ctypes, os
import numpy as np
import tensorflow as tf
library = ctypes.CDLL(os.environ['TF_PLUGGABLE_DEVICE_LIBRARY_PATH'])
library.xladev_num_replays.restype = ctypes.c_long
def replays(call):
    'How many of its operators were executed again, and what it gives.'
    before = library.xladev_num_replays()
    with tf.device('XLADEV:0'):
        found = [value.numpy() for value in tf.nest.flatten(call())]
    return library.xladev_num_replays() - before, found
with tf.device('XLADEV:0'):
    a = tf.identity(np.arange(12, dtype='f').reshape(3, 4))
    b = tf.identity(np.full((3, 4), 10, 'f'))
"""


def test_what_changes_between_calls() -> None:
    """Arguments, shapes, constants, one array given twice, more shapes than are remembered."""
    run_tensorflow(
        BEGIN
        + """
host_a, host_b = a.numpy(), b.numpy()
assert replays(lambda: tf.add(a, b))[0] == 0
for _ in range(3):
    for x, y, wanted in ((a, b, host_a + host_b), (a, a, 2 * host_a), (b, a, host_a + host_b)):
        count, (found,) = replays(lambda: tf.add(x, y))
        assert count == 1 and (found == wanted).all(), (count, found)
for _ in range(3):
    for axis in (0, 1, -1):
        count, (found,) = replays(lambda: tf.reduce_sum(a, axis=axis))
        assert (found == host_a.sum(axis)).all(), (axis, found)
assert count == 1
for _ in range(3):
    for size in range(1, 14):
        x = np.arange(size, dtype='f')
        with tf.device('XLADEV:0'):
            given = tf.identity(x)
        count, (found,) = replays(lambda: tf.tanh(given))
        np.testing.assert_allclose(found, np.tanh(x), 1e-6)
for _ in range(2):
    count, found = replays(lambda: tf.split(a, 2, axis=1))
    assert [f.tolist() for f in found] == [host_a[:, :2].tolist(), host_a[:, 2:].tolist()]
assert count == 1
for dtype in ('float64', 'int64', 'bool', 'complex64'):
    for _ in range(2):
        count, (found,) = replays(lambda: tf.transpose(tf.cast(a, dtype)))
        assert (found == host_a.T.astype(dtype)).all()
"""
    )


def test_what_is_not_repeated() -> None:
    """Sizes that depend on values, nothing to compute, variables, and random numbers."""
    run_tensorflow(
        BEGIN
        + """
for values in ([0, 1, 2, 0], [1, 1, 1, 1], [0, 0, 0, 0]):
    with tf.device('XLADEV:0'):
        given = tf.identity(np.array(values, 'f'))
    _, (found,) = replays(lambda: tf.where(given > 0))
    assert found[:, 0].tolist() == np.flatnonzero(values).tolist(), found
for _ in range(3):
    _, (found,) = replays(lambda: tf.add(a[:0], b[:0]))
    assert found.shape == (0, 4)
with tf.device('XLADEV:0'):
    variable = tf.Variable(tf.zeros([4]))
for i in range(1, 4):
    replays(lambda: variable.assign_add(tf.ones([4])))
    assert variable.numpy().tolist() == [i] * 4
drawn = [replays(lambda: tf.random.uniform([4]))[1][0].tolist() for _ in range(3)]
shuffled = [replays(lambda: tf.random.shuffle(tf.range(99.0)))[1][0].tolist() for _ in range(3)]
assert drawn[0] != drawn[1] != drawn[2] and shuffled[0] != shuffled[1] != shuffled[2]
"""
    )


def test_it_can_be_turned_off() -> None:
    run_tensorflow(
        BEGIN + "for _ in range(3): assert replays(lambda: tf.add(a, b))[0] == 0",
        XLADEV_TF_REPLAY="0",
    )


def test_memory_is_returned_and_threads_agree() -> None:
    """Operators of several threads, in functions that come and go, whose kernels are destroyed."""
    run_tensorflow(
        BEGIN
        + """
import gc, threading
def resident_mb():
    return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE') / 2**20
wrong = []
def work(number):
    with tf.device('XLADEV:0'):
        mine = tf.identity(np.full((256, 256), number, 'f'))
        for i in range(400):
            made = tf.reduce_sum(tf.add(mine, mine), axis=0).numpy()
            if not (made == 512 * number).all():
                wrong.append(made)
            if i % 100 == 99:
                tf.function(lambda x: tf.tanh(x) + tf.exp(-x))(mine)
                gc.collect()
def turn():
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong, wrong[:1]
    return resident_mb()
first = [turn() for _ in range(2)][-1]
last = [turn() for _ in range(3)][-1]
assert last - first < 40, (first, last)  # each array of a step has a quarter of a MB
""",
        timeout_s=400,
    )


def test_failures_after_success() -> None:
    """What fails in a repeated execution is an error of the same class as in TensorFlow's."""
    run_tensorflow(
        BEGIN
        + """
from xladev.errors import DeviceLostError, OutOfMemoryError
from xladev.frontends.jax.program import JaxProgram
for _ in range(3):
    count, _ = replays(lambda: tf.add(a, b))
assert count == 1
execute = JaxProgram.execute
for error, kind in ((DeviceLostError('gone'), tf.errors.UnavailableError),
                    (OutOfMemoryError('full'), tf.errors.ResourceExhaustedError)):
    def fails(*_, **__):
        raise error
    JaxProgram.execute = fails
    try:
        replays(lambda: tf.add(a, b))
    except kind as raised:
        assert str(error) in str(raised), raised
    else:
        raise SystemExit('nothing was raised')
    JaxProgram.execute = execute
    count, (found,) = replays(lambda: tf.add(a, b))
    assert count == 1 and found[0, 0] == 10
""",
        "template_npu",
    )
