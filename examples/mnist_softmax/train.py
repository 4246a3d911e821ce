"""Trains softmax regression on handwritten digits, on any platform, from an exported HLO program.

python train.py                       the 8x8 digits of this example, on the best platform here
python train.py --platform cpu        on the platform named
python train.py --data FOLDER         MNIST, where you have its four IDX files
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import numpy as np

import xladev

PROGRAMS = Path(__file__).parent / "programs"
CLASSES = 10
BATCH = 100
REPORTS = 10

Program: TypeAlias = Callable[..., tuple[Any, ...]]


def batches(data: datasets.Dataset, seed: int) -> Iterator[tuple[datasets.Array, datasets.Array]]:
    """Full batches of the training set without end, shuffled anew for each pass over it."""
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(len(data.train_x))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield data.train_x[chosen], data.train_y[chosen]


def load(name: str, features: int, platform: str | None) -> Program:
    """The exported program `name` for that many features, compiled for the platform."""
    return xladev.compile(xladev.load(PROGRAMS / f"{name}_{features}.pb"), platform=platform)


def train(data: datasets.Dataset, platform: str | None, steps: int, seed: int) -> list[object]:
    """The weights [w, b] after so many steps. They stay on the device from step to step."""
    features = data.train_x.shape[1]
    step = load("step", features, platform)
    w, b = np.zeros((features, CLASSES), np.float32), np.zeros(CLASSES, np.float32)
    for number, (x, y) in zip(range(1, steps + 1), batches(data, seed), strict=False):
        w, b, loss = step(w, b, x, y)
        if number % max(1, steps // REPORTS) == 0:
            print(f"step {number:5}  loss {float(loss.numpy()):.4f}", flush=True)
    return [w, b]


def accuracy(data: datasets.Dataset, platform: str | None, weights: list[object]) -> float:
    """The share of the test set that the weights name rightly, over whole batches."""
    predict = load("predict", data.test_x.shape[1], platform)
    starts = range(0, len(data.test_x) - BATCH + 1, BATCH)
    right = 0
    for start in starts:
        digits = predict(*weights, data.test_x[start : start + BATCH])
        right += int((digits.numpy() == data.test_y[start : start + BATCH]).sum())
    return right / (BATCH * len(starts))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="train softmax regression on handwritten digits")
    parser.add_argument("--platform", help="such as cpu or interpreter (default: the best here)")
    parser.add_argument("--steps", type=int, default=500, help="training steps (default: 500)")
    parser.add_argument("--data", type=Path, help="folder of MNIST's IDX files")
    parser.add_argument("--seed", type=int, default=0, help="order of the batches (default: 0)")
    return parser.parse_args()


def main() -> None:
    """Train, test, and say how it went."""
    options = parse_arguments()
    data = datasets.read_mnist(options.data) if options.data else datasets.read_digits()
    start = time.perf_counter()
    weights = train(data, options.platform, options.steps, options.seed)
    share = accuracy(data, options.platform, weights)
    seconds = time.perf_counter() - start
    print(
        f"test accuracy {share:.1%} after {options.steps} steps, {seconds:.1f} s with compilation"
    )


if __name__ == "__main__":
    main()
