"""TensorFlow's profiler: what ran on the device is in its files."""

import json

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = pytest.mark.long

PROGRAM = """
import glob, json, tempfile
import tensorflow as tf
try:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2
except ImportError:
    from tensorflow.core.profiler.protobuf import xplane_pb2

def record(folder):
    tf.profiler.experimental.start(folder)
    for _ in range(3):
        result = f(x)
    result.numpy()
    tf.profiler.experimental.stop()
    file, = glob.glob(folder + '/**/*.xplane.pb', recursive=True)
    space = xplane_pb2.XSpace()
    with open(file, 'rb') as data:
        space.ParseFromString(data.read())
    for plane in space.planes:
        if plane.name.startswith('/device:CUSTOM:xladev'):
            print('lines', json.dumps({line.name: len(line.events) for line in plane.lines}))

with tf.device('XLADEV:0'):
    x = tf.random.stateless_normal([64, 64], [1, 2])
    f = tf.function(lambda x: tf.nn.softmax(x @ x), jit_compile=True)
    f(x)
    for _ in range(2):
        record(tempfile.mkdtemp())
"""


def test_kernels_are_recorded_each_time() -> None:
    """A plane of the device has each run of the program, and each kernel of it."""
    shown = run_tensorflow(PROGRAM).splitlines()
    lines = [json.loads(s.removeprefix("lines ")) for s in shown if s.startswith("lines ")]
    assert [line["XLA Modules"] for line in lines] == [3, 3]
    assert all(line["XLA Ops"] >= 6 and line["XLA Ops"] % 3 == 0 for line in lines)


@pytest.mark.rotating
def test_empty_arrays_in_traced_sessions() -> None:
    """TensorFlow counts memory there, by an allocator that gave them none."""
    run_tensorflow(
        """
import tensorflow as tf
tf1 = tf.compat.v1
def f(x):
    return tf.transpose(tf.zeros([7, 0]) + x[:0])
for make in (f, tf.function(f, jit_compile=True)):
    with tf1.Graph().as_default(), tf.device('XLADEV:0'), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [3])
        y = make(x)
        told = tf1.RunMetadata()
        traced = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        for options in (None, traced):
            assert session.run(y, {x: [1, 2, 3]}, options, told).shape == (0, 7)
        assert any('XLADEV' in stats.device for stats in told.step_stats.dev_stats)
"""
    )
