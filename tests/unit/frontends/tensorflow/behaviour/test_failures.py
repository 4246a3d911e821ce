"""What fails on the device is an error of the right class in TensorFlow; the process goes on."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

EXPECT = """
import tensorflow as tf
def expect(kind, text, call):
    try:
        made = call()
        made.numpy()
    except kind as error:
        assert text in str(error), error
    else:
        raise SystemExit(f'nothing was raised: {made}')
    with tf.device('XLADEV:0'):
        assert (tf.ones(2) + 1).numpy().tolist() == [2, 2]
"""


def test_classes_of_errors() -> None:
    run_tensorflow(
        EXPECT
        + """
from xladev.errors import DeviceLostError, OutOfMemoryError
from xladev.frontends.jax.program import JaxProgram
execute = JaxProgram.execute
def failing(error, call):
    def fails(*_, **__):
        raise error
    JaxProgram.execute = fails
    try:
        return call()
    finally:
        JaxProgram.execute = execute
with tf.device('XLADEV:0'):
    x = tf.ones([2])
    compiled = tf.function(lambda x: x * 3, jit_compile=True)
    calls = (lambda: (x * 2).numpy(), lambda: compiled(x).numpy())
for error, kind, text in (
    (DeviceLostError('gone'), tf.errors.UnavailableError, 'gone'),
    (OutOfMemoryError('full'), tf.errors.ResourceExhaustedError, 'full'),
    (RuntimeError('planted'), tf.errors.InternalError, 'planted'),
):
    for call in calls:
        with tf.device('XLADEV:0'):
            expect(kind, text, lambda: failing(error, call))
""",
        "template_npu",
    )


WAYS = """
import numpy as np, tensorflow as tf
from xladev.errors import DeviceLostError
from xladev.platforms.template_npu.device.faults import FaultCode
from xladev.platforms.template_npu.driver import library as npu
from xladev.platforms.template_npu.executor import TemplateNpuExecutor
from xladev.frontends.tensorflow.loss import reset_lost_devices
features, targets = np.ones((16, 4), 'f'), np.ones((16, 1), 'f')
def keras(jit):
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile('sgd', 'mse', jit_compile=jit)
    return model
graph, compiled = tf.function(lambda x: x * 3), tf.function(lambda x: x * 4, jit_compile=True)
with tf.device('XLADEV:0'):
    models = [keras(False), keras(True)]
def fit(model):
    return lambda x: model.fit(features, targets, batch_size=8, epochs=1, verbose=0)
ways = {
    'eager': lambda x: (x * 2).numpy(), 'graph': lambda x: graph(x).numpy(),
    'compiled': lambda x: compiled(x).numpy(), 'upload': lambda x: tf.constant(features) + 1,
    'fit': fit(models[0]), 'compiled fit': fit(models[1])}
def start():
    '''What failed steps would have changed is made anew.'''
    for model in models:
        for variable in model.variables + model.optimizer.variables:
            variable.assign(tf.zeros(variable.shape, variable.dtype))
    return tf.ones([16, 4])
def work():
    with tf.device('XLADEV:0'):
        x = start()
        for way in ways.values():
            way(x)
def expect(way, x, kind):
    try:
        with tf.device('XLADEV:0'):
            ways[way](x)
    except tf.errors.OpError as error:
        assert type(error) is kind, (way, error)
    else:
        raise SystemExit(f'{way}: nothing was raised')
work()
"""


def test_a_driver_that_fails() -> None:
    """Each way to run things has the same class of error, and works again afterwards."""
    run_tensorflow(
        WAYS
        + """
def refusing(function, code, way, kind):
    with tf.device('XLADEV:0'):
        x = start()
    saved = getattr(npu, function)
    def refuse(*_, **__):
        raise npu.NpuError(code, 'planted')
    setattr(npu, function, refuse)
    try:
        expect(way, x, kind)
    finally:
        setattr(npu, function, saved)
for way in ways:
    refusing('npu_alloc', FaultCode.OUT_OF_MEMORY, way, tf.errors.ResourceExhaustedError)
    function = 'npu_write' if way == 'upload' else 'npu_submit'
    refusing(function, FaultCode.BAD_HANDLE, way, tf.errors.InternalError)
for way in ('eager', 'graph', 'compiled'):
    refusing('npu_read', FaultCode.BAD_HANDLE, way, tf.errors.InternalError)
work()
""",
        "template_npu",
    )


def test_a_device_that_is_lost() -> None:
    """Until it is reset all work on it is refused, and the CPU goes on."""
    run_tensorflow(
        WAYS
        + """
with tf.device('XLADEV:0'):
    x = tf.ones([16, 4])
launch = TemplateNpuExecutor.launch_kernel
def fails(*_, **__):
    raise DeviceLostError('it stopped')
TemplateNpuExecutor.launch_kernel = fails
expect('eager', x, tf.errors.UnavailableError)
TemplateNpuExecutor.launch_kernel = launch
for way in ways:
    expect(way, x, tf.errors.UnavailableError)
assert (tf.ones(2) + 1).numpy().tolist() == [2, 2]
reset_lost_devices()
expect('eager', x, tf.errors.UnavailableError)
work()
reset_lost_devices()
work()
""",
        "template_npu",
    )


def test_a_compiler_that_raises() -> None:
    run_tensorflow(
        EXPECT
        + """
from xladev.platforms.cpu.compiler import CpuCompiler
def fails(*_, **__):
    raise ZeroDivisionError('planted')
link, CpuCompiler.link = CpuCompiler.link, fails
try:
    with tf.device('XLADEV:0'):
        tf.function(lambda x: tf.sin(x) * 7, jit_compile=True)(tf.ones([5]))
except tf.errors.InternalError as error:
    assert 'planted' in str(error), error
else:
    raise SystemExit('nothing was raised')
CpuCompiler.link = link
expect(tf.errors.InvalidArgumentError, 'Matrix size-incompatible',
       lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])))
with tf.device('XLADEV:0'):
    assert tf.function(lambda x: x * 7, jit_compile=True)(tf.ones([5])).numpy()[0] == 7
""",
        XLADEV_CACHE="off",
    )


def test_memory_that_there_is_not() -> None:
    run_tensorflow(
        EXPECT
        + """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
def huge():
    return tf.reduce_sum(tf.zeros([1 << 20, 1 << 20]))
with tf.device('XLADEV:0'):
    expect(tf.errors.ResourceExhaustedError, 'Out of memory', huge)
"""
    )


def test_a_platform_that_there_is_not() -> None:
    run_tensorflow(
        """
import tensorflow as tf
for _ in range(2):
    try:
        with tf.device('XLADEV:0'):
            tf.ones(2) + 1
    except tf.errors.InvalidArgumentError as error:
        assert "no platform or kind is called 'nosuch'" in str(error), error
    else:
        raise SystemExit('nothing was raised')
assert (tf.ones(2) + 1).numpy().tolist() == [2, 2]
""",
        "nosuch",
    )


def test_checks_are_made_where_operators_run_alone() -> None:
    run_tensorflow(
        """
import tensorflow as tf
with tf.device('XLADEV:0'):
    bad = tf.constant([1.0, float('nan')])
    def positive():
        tf.debugging.assert_positive(-bad)
        return bad
    for call in (lambda: tf.debugging.check_numerics(bad, 'here'), positive):
        for run in (call, tf.function(call)):
            try:
                run()
            except tf.errors.InvalidArgumentError as error:
                pass
            else:
                raise SystemExit('nothing was raised')
    made = tf.strings.join(['a', 'b'])
    assert 'CPU:0' in made.device
"""
    )
