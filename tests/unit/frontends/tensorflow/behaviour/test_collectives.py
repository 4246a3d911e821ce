"""Collectives of TensorFlow's strategies, which ask for each device's part by itself."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

MIRRORED = """
import numpy as np, tensorflow as tf
strategy = tf.distribute.MirroredStrategy(['XLADEV:0', 'XLADEV:1'])
"""


@pytest.mark.parametrize("platform", ["cpu", "template_npu"])
def test_reductions(platform: str) -> None:
    """Alone and in a graph; several at once, of equal and of other shapes; means, integers."""
    run_tensorflow(
        MIRRORED
        + """
def reduced():
    context = tf.distribute.get_replica_context()
    number = tf.cast(context.replica_id_in_sync_group, tf.float32)
    sums = context.all_reduce('SUM', [number + k + tf.zeros([1 + k % 3]) for k in range(6)])
    mean = context.all_reduce('MEAN', number)
    return [*sums, mean, context.all_reduce('SUM', tf.cast(number, tf.int32) + 5)]
for run in (strategy.run, tf.function(strategy.run)):
    for _ in range(3):
        for replica in range(2):
            found = [strategy.experimental_local_results(each)[replica] for each in run(reduced)]
            for k, each in enumerate(found[:6]):
                assert each.numpy().tolist() == [2 * k + 1] * (1 + k % 3), (k, each)
            assert found[6].numpy() == 0.5 and found[7].numpy() == 11, found
""",
        platform,
        XLADEV_TF_DEVICES="2",
    )


def test_training() -> None:
    """As by one device, with many variables of equal shapes, whose gradients come in any order."""
    run_tensorflow(
        MIRRORED
        + """
rng = np.random.default_rng(0)
x, y = rng.normal(size=(128, 8)).astype('f'), rng.normal(size=(128, 1)).astype('f')
def train(strategy):
    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.Input((8,)), *(tf.keras.layers.Dense(8, 'tanh') for _ in range(6)),
            tf.keras.layers.Dense(1)])
        drawn = np.random.default_rng(1)
        model.set_weights([drawn.normal(size=w.shape).astype('f') for w in model.get_weights()])
        model.compile('adam', 'mse')
    fit = model.fit(x, y, batch_size=16, epochs=4, verbose=0, shuffle=False)
    return fit.history['loss'], model.get_weights()
wanted, weights = train(tf.distribute.OneDeviceStrategy('CPU:0'))
found, others = train(strategy)
np.testing.assert_allclose(found, wanted, 1e-4)
for one, other in zip(weights, others):
    np.testing.assert_allclose(one, other, 1e-3, 1e-4)
""",
        XLADEV_TF_DEVICES="2",
    )


def test_a_step_that_fails() -> None:
    """A part that never comes leaves the next steps right."""
    run_tensorflow(
        MIRRORED
        + """
@tf.function
def reduced(bad):
    def each():
        context = tf.distribute.get_replica_context()
        number = tf.cast(context.replica_id_in_sync_group, tf.float32)
        if bad:  # on one device
            number = tf.debugging.check_numerics(number / (1 - number), 'planted')
        return context.all_reduce('SUM', number + 1)
    return strategy.experimental_local_results(strategy.run(each))
for _ in range(3):
    assert [float(each) for each in reduced(False)] == [3, 3]
    try:
        reduced(True)
    except tf.errors.InvalidArgumentError as error:
        assert 'planted' in str(error), error
    else:
        raise SystemExit('nothing was raised')
assert [float(each) for each in reduced(False)] == [3, 3]
""",
        XLADEV_TF_DEVICES="2",
        timeout_s=120,
    )
