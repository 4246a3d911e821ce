"""Trains, evaluates and uses a Keras 3 model on digits; JAX_PLATFORMS says on what.

JAX_PLATFORMS=xladev_cpu python train.py       the CPU of xladev
JAX_PLATFORMS=template_npu python train.py     a simulated accelerator

Needs ``pip install 'xladev[jax-examples]' xladev-pjrt``.
"""

import argparse
import os
from pathlib import Path

import numpy as np

os.environ["KERAS_BACKEND"] = "jax"  # before keras is imported
import jax
import keras

DIGITS = Path(__file__).parents[1] / "mnist_softmax" / "digits.npz"
TEST_IMAGES = 500
CLASSES = 10


def read_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images from 0 to 1 and labels: those to train with, then those to test with."""
    with np.load(DIGITS) as file:
        x = file["images"].reshape(-1, 8, 8, 1).astype(np.float32) / 16
        y = file["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(x))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return x[train], y[train], x[test], y[test]


def make_model() -> keras.Model:
    """A small convolutional network; its steps are compiled as one program each."""
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", use_bias=False),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(32, activation="gelu"),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=True,
    )
    return model


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--passes", type=int, default=8, help="passes over the training set")
    passes = parser.parse_args().passes
    keras.utils.set_random_seed(0)
    train_x, train_y, test_x, test_y = read_digits()
    model = make_model()
    model.fit(train_x, train_y, batch_size=100, epochs=passes, verbose=2)
    value, share = model.evaluate(test_x, test_y, batch_size=250, verbose=0)
    chosen = model.predict(test_x, batch_size=250, verbose=0).argmax(axis=1)
    print(f"test loss {value:.4f}; predictions right {np.mean(chosen == test_y):.1%}")
    print(f"test accuracy {share:.1%} on {jax.default_backend()}")


if __name__ == "__main__":
    main()
