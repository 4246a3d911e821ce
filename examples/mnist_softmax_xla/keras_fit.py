"""Softmax regression on handwritten digits with Keras: compile with XLA, fit, evaluate, predict.

python keras_fit.py                   on xladev's device
python keras_fit.py --device CPU:0    on TensorFlow's own CPU
"""

import digits
import keras
import numpy as np
import tensorflow as tf


class Losses(keras.callbacks.Callback):
    """The loss of each step; Keras reports the mean since the epoch began."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[float] = []
        self._before = 0.0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Called by Keras after a step."""
        total = (logs or {})["loss"] * (batch + 1)
        self.each.append(total - (self._before if batch else 0.0))
        self._before = total


def main() -> None:
    """Trains, and says how well."""
    options = digits.arguments(__doc__ or "").parse_args()
    data = digits.read(options.data_dir)
    pairs = list(digits.batches(data, options.steps))
    x, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
    with tf.device(options.device):
        dense = keras.layers.Dense(digits.CLASSES, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((x.shape[1],)), dense])
        model.compile(
            optimizer=keras.optimizers.SGD(digits.RATE),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            jit_compile=True,
        )
        losses = Losses()
        model.fit(x, y, batch_size=digits.BATCH, shuffle=False, verbose=0, callbacks=[losses])
        _, accuracy = model.evaluate(data.test_x, data.test_y, verbose=0)
        first = model.predict(data.test_x[:5], verbose=0).argmax(1)
    print(f"the first five test digits: {data.test_y[:5].tolist()}, read as {first.tolist()}")
    digits.report(losses.each, accuracy, options)


if __name__ == "__main__":
    main()
