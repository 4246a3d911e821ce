"""Writes the digits of ../mnist_softmax as train.c reads them.

python digits.py FILE      f32[1797,64] pixels from 0 to 1, then s32[1797] labels

The images are in the order in which ../mnist_softmax/datasets.py draws them: 500 to test come
first.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mnist_softmax"))

import datasets
import numpy as np


def main() -> None:
    """Write the file that the command line names."""
    data = datasets.read_digits()
    pixels = np.concatenate([data.test_x, data.train_x]).astype("<f4")
    labels = np.concatenate([data.test_y, data.train_y]).astype("<i4")
    Path(sys.argv[1]).write_bytes(pixels.tobytes() + labels.tobytes())


if __name__ == "__main__":
    main()
