"""Reads handwritten digits: the 1,797 of 8x8 pixels that come with this example, or MNIST's files.

A file in MNIST's IDX format holds two zero bytes, one byte for the element type (8 is uint8), one
for the rank, each dimension as a big-endian 32-bit integer, and the elements in C order.
"""

import gzip
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

DIGITS = Path(__file__).parent / "digits.npz"
DIGITS_TEST_IMAGES = 500
UINT8 = 8

Array: TypeAlias = np.ndarray


@dataclass(frozen=True, slots=True)
class Dataset:
    """Pixels as f32[n, features] from 0 to 1, and labels as s32[n]."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array


def read_digits() -> Dataset:
    """The digits of this example, shuffled once so that each writer is in both halves."""
    with np.load(DIGITS) as file:
        x, y = _pixels(file["images"], 16), file["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(x))
    test, train = order[:DIGITS_TEST_IMAGES], order[DIGITS_TEST_IMAGES:]
    return Dataset(x[train], y[train], x[test], y[test])


def read_mnist(folder: Path) -> Dataset:
    """MNIST from its four files in `folder`, each as it is or compressed (.gz)."""
    return Dataset(
        _pixels(read_idx(_find(folder, "train-images-idx3-ubyte")), 255),
        read_idx(_find(folder, "train-labels-idx1-ubyte")).astype(np.int32),
        _pixels(read_idx(_find(folder, "t10k-images-idx3-ubyte")), 255),
        read_idx(_find(folder, "t10k-labels-idx1-ubyte")).astype(np.int32),
    )


def read_idx(path: Path) -> Array:
    """The uint8 array in an IDX file; ValueError where the file is damaged or of another type."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UINT8:
        raise ValueError(f"{path} is no IDX file of unsigned bytes: it begins {data[:4].hex()!r}")
    start = 4 + 4 * data[3]
    dims = [int.from_bytes(data[at : at + 4], "big") for at in range(4, start, 4)]
    if len(data) != start + math.prod(dims):
        wanted = f"{start + math.prod(dims)} bytes for its dimensions {dims}"
        raise ValueError(f"{path} has {len(data)} bytes and needs {wanted}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(dims)


def _pixels(images: Array, white: int) -> Array:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(white)


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"{folder} has neither {name} nor {name}.gz")
