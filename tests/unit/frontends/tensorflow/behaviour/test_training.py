"""Training on the device: as on TensorFlow's CPU, from several threads, on several devices."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

KERAS = """
import numpy as np, tensorflow as tf
rng = np.random.default_rng(0)
x = rng.normal(size=(256, 8, 8, 1)).astype('f')
y = (x.sum((1, 2, 3)) > 0).astype('int32')
layers = tf.keras.layers
def train(device, jit):
    tf.keras.utils.set_random_seed(1)
    with tf.device(device):
        model = tf.keras.Sequential([
            layers.Input((8, 8, 1)), layers.Conv2D(4, 3, activation='relu'), layers.MaxPooling2D(),
            layers.BatchNormalization(), layers.Reshape((9, 4)), layers.LSTM(8), layers.Dense(2)])
        drawn = np.random.default_rng(2)
        model.set_weights([
            drawn.normal(size=w.shape).astype('f') * 0.1 if w.ndim > 1 else w
            for w in model.get_weights()])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile('adam', loss, jit_compile=jit)
        losses = model.fit(x, y, batch_size=64, epochs=3, shuffle=False, verbose=0).history['loss']
        return [*losses, model.evaluate(x, y, verbose=0), *model.predict(x[:2], verbose=0).ravel()]
wanted = train('CPU:0', False)
for jit in MODES:
    found = train('XLADEV:0', jit)
    assert np.allclose(found, wanted, 1e-3, 1e-3), (jit, found, wanted)
"""


@pytest.mark.parametrize("platform, modes", [("cpu", (False, True)), ("template_npu", (True,))])
def test_keras(platform: str, modes: tuple[bool, ...]) -> None:
    run_tensorflow(KERAS.replace("MODES", repr(modes)), platform, timeout_s=500)


THREADS = """
import threading
import numpy as np, tensorflow as tf
def resident_mb():
    return int(open('/proc/self/statm').read().split()[1]) * 4 // 1024
rng = np.random.default_rng(0)
x, y = rng.normal(size=(256, 16)).astype('f'), np.ones((256, 1), 'f')
failures, sizes = [], {}
def train(number):
    try:
        with tf.device('XLADEV:0'):
            w, b = tf.Variable(tf.zeros([16, 1])), tf.Variable(0.0)
            @tf.function(jit_compile=number % 2 == 0)
            def step(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(x @ w + b - y))
                for value, slope in zip((w, b), tape.gradient(loss, (w, b))):
                    value.assign_sub(0.1 * slope)
                return loss
            data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=number).repeat()
            for i, pair in enumerate(data.batch(32).prefetch(4)):
                loss = step(*pair)
                made = tf.constant([float(i), 2.0]) * tf.constant(2.0)
                if i % 7 == 0:
                    assert made.numpy()[0] == 2 * i and float(loss) < 2
                if i % 50 == 0:
                    large = tf.constant(rng.normal(size=(64, 300)).astype('f'))
                    float(tf.reduce_sum(large))
                if number == 0 and i in (STEPS // 2, STEPS):
                    sizes[i] = resident_mb()
                if i >= STEPS:
                    return
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=train, args=(k,)) for k in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
grown = sizes[STEPS] - sizes[STEPS // 2]
assert grown < 60, f'{grown} MB'
"""


@pytest.mark.parametrize("platform, steps", [("cpu", 2000), ("template_npu", 400)])
def test_four_threads(platform: str, steps: int) -> None:
    run_tensorflow(THREADS.replace("STEPS", str(steps)), platform, timeout_s=400)


def test_first_use_by_many_threads_at_once() -> None:
    """One opens the device, which takes Python's lock; the others hold it and wait."""
    run_tensorflow(
        """
import threading
import tensorflow as tf
ready, made = threading.Barrier(8), []
def work(number):
    ready.wait()
    with tf.device('XLADEV:0'):
        made.append((tf.constant([float(number)]) * 2).numpy()[0])
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(made) == [0, 2, 4, 6, 8, 10, 12, 14], made
""",
        timeout_s=120,
    )


@pytest.mark.parametrize("platform", ["cpu", "template_npu"])
def test_two_devices(platform: str) -> None:
    run_tensorflow(
        """
import numpy as np, tensorflow as tf
devices = ['XLADEV:0', 'XLADEV:1']
double = tf.function(lambda x: x * 2, jit_compile=True)
for device in devices:
    with tf.device(device):
        for made in (tf.ones([3]) * 2, double(tf.ones([3]))):
            assert device in made.device and made.numpy().tolist() == [2, 2, 2]
with tf.device(devices[0]):
    assert (tf.identity(made) + 1).numpy().tolist() == [3, 3, 3]
x, y = np.arange(64, dtype='f').reshape(16, 4) / 64, np.ones((16, 3), 'f')
def train(strategy):
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
        model.set_weights([np.ones((4, 3), 'f'), np.zeros(3, 'f')])
        model.compile('sgd', 'mse')
    return model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False).history['loss']
wanted = train(tf.distribute.OneDeviceStrategy('CPU:0'))
reduction = tf.distribute.ReductionToOneDevice()
found = train(tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction))
assert np.allclose(found, wanted, 1e-5), (found, wanted)
""",
        platform,
        XLADEV_TF_DEVICES="2",
    )


def test_saved_models_and_checkpoints() -> None:
    run_tensorflow(
        """
import tempfile
import numpy as np, tensorflow as tf
class Scaled(tf.Module):
    def __init__(self):
        self.scale = tf.Variable([2.0, 3.0])
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name='x')])
    def __call__(self, x):
        return self.scale * x
folder = tempfile.mkdtemp()
x = np.ones((3, 2), 'f')
with tf.device('XLADEV:0'):
    model = Scaled()
    tf.saved_model.save(model, folder, signatures=model.__call__.get_concrete_function())
    kept = tf.train.Checkpoint(model=model).save(folder + '/kept')
    model.scale.assign([0.0, 0.0])
    tf.train.Checkpoint(model=model).restore(kept)
    loaded = tf.saved_model.load(folder)
    (served,) = loaded.signatures['serving_default'](tf.constant(x)).values()
    for found in (model(x), loaded(x), served):
        assert 'XLADEV:0' in found.device and found.numpy().tolist() == [[2, 3]] * 3
on_host = tf.saved_model.load(folder)
assert on_host(x).numpy().tolist() == [[2, 3]] * 3
"""
    )


def test_programs_at_each_stage() -> None:
    run_tensorflow(
        """
import tensorflow as tf
with tf.device('XLADEV:0'):
    v = tf.Variable([1.0, 2.0])
    f = tf.function(lambda x: tf.nn.relu(x * v + 1.0), jit_compile=True)
    stages = f.experimental_get_compiler_ir(tf.constant([1.0, 2.0]))
    assert stages('hlo').startswith('HloModule') and 'stablehlo' in stages('stablehlo')
    assert 'maximum' in stages('optimized_hlo')
    assert stages('optimized_hlo_dot').startswith('digraph')
    assert v.numpy().tolist() == [1, 2]
assert 'maximum' in stages('optimized_hlo'), 'asked from elsewhere'
from xladev.hlo.proto import read_module
for stage in ('hlo_serialized', 'optimized_hlo_serialized'):
    assert len(read_module(stages(stage)).entry.parameters) == 2
with tf.device('CPU:0'):
    g = tf.function(lambda x: x + 1, jit_compile=True)
    assert 'add' in g.experimental_get_compiler_ir(tf.constant([1.0]))('optimized_hlo')
"""
    )
