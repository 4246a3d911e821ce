"""Variables on the device: of each type, and in sessions that end while arrays are on their way."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]


def test_variables_of_each_type() -> None:
    """TensorFlow keeps those of 32-bit integers on the host for devices of plugins."""
    run_tensorflow(
        """
import tensorflow as tf
tf.config.set_soft_device_placement(False)
names = 'float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64'
for name in [*names.split(), 'complex64', 'complex128']:
    with tf.device('XLADEV:0'):
        v = tf.Variable(tf.cast([1, 2], tf.as_dtype(name)))
        def step():
            v.assign_add(v)
            return v.read_value()
        for call in (step, tf.function(step), tf.function(step, jit_compile=True)):
            made = call()
            assert 'XLADEV' in made.device, (name, made.device)
    assert 'XLADEV' in v.device and v.numpy().tolist() == [8, 16], (name, v)
tf.config.set_soft_device_placement(True)
with tf.device('XLADEV:0'):
    count = tf.Variable(3)
    assert tf.range(count).shape == [3] and tf.reshape(tf.ones(6), [count, 2]).shape == [3, 2]
    for _ in tf.range(count):
        count.assign_sub(1)
    optimizer = tf.keras.optimizers.Adam()
    x = tf.keras.Variable([1.0])
    optimizer.apply([tf.constant([1.0])], [x])
    assert int(optimizer.iterations) == 1
assert count.numpy() == 0
"""
    )


def test_sessions_that_end() -> None:
    """Arrays on their way between memories outlive a step, and a session's devices end with it."""
    run_tensorflow(
        """
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_tpu_ops
tf1 = tf.compat.v1
values = np.arange(64, dtype='i').reshape(4, 4, 4)
for _ in range(60):
    with tf1.Graph().as_default(), tf.device('XLADEV:0'), tf1.Session() as session:
        v = tf1.get_variable('v', initializer=values, use_resource=True)
        session.run(v.initializer)
        parts = gen_tpu_ops.read_variable_xla_split_nd(v.handle, tf.int32, 8, [2, 2, 2])
        made = session.run(parts)
    assert (made[7] == values[2:, 2:, 2:]).all()
"""
    )


def test_allocators_outlive_their_devices() -> None:
    """A thread may give back an array after its session has deleted device and allocator."""
    run_tensorflow(
        """
import ctypes, os
import tensorflow as tf
with tf.device('XLADEV:0'):
    tf.zeros(3).numpy()
folder = os.path.dirname(tf.__file__)
library = ctypes.CDLL(os.path.join(folder, 'libtensorflow_cc.so.2'))
table = ctypes.c_void_p.in_dll(library, '_ZTVN10tensorflow19AsyncValueAllocatorE')
functions = ctypes.addressof(table) + 16
allocator = (ctypes.c_void_p * 2)(functions, None)
delete = ctypes.c_void_p.from_address(functions + 8).value
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)(ctypes.addressof(allocator))
assert allocator[0] == functions
"""
    )
