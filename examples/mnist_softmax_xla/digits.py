"""Handwritten digits and batches of them, for the three programs beside this file."""

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

CLASSES = 10
BATCH = 100
RATE = 0.5


def _datasets() -> ModuleType:
    """The reader of the example without TensorFlow, beside this one."""
    path = Path(__file__).parents[1] / "mnist_softmax" / "datasets.py"
    spec = importlib.util.spec_from_file_location("mnist_softmax_datasets", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def arguments(description: str) -> argparse.ArgumentParser:
    """What all three programs can be told."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--data_dir", type=Path, help="folder with MNIST's four IDX files")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--device", default="XLADEV:0", help="such as XLADEV:0 or CPU:0")
    parser.add_argument("--losses", type=Path, help="write the loss of each step, one a line")
    return parser


def read(data_dir: Path | None) -> Any:
    """MNIST, where the user has it; else the 8x8 digits that scikit-learn ships, which it says."""
    datasets = _datasets()
    if data_dir is not None:
        return datasets.read_mnist(data_dir)
    data = datasets.read_digits()
    print(
        f"no --data_dir: this trains on scikit-learn's {len(data.train_x) + len(data.test_x)} "
        "handwritten digits of 8x8 pixels, which are not MNIST"
    )
    return data


def batches(data: Any, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of the training set, shuffled anew for each pass; the same in each program."""
    random = np.random.default_rng(0)
    done = 0
    while done < steps:
        order = random.permutation(len(data.train_x))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            if done == steps:
                return
            chosen = order[start : start + BATCH]
            yield data.train_x[chosen], data.train_y[chosen]
            done += 1


def report(losses: list[float], accuracy: float, options: argparse.Namespace) -> None:
    """Prints what came of it, and writes the losses where they are wanted."""
    if options.losses:
        options.losses.write_text("".join(f"{loss:.9g}\n" for loss in losses))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps")
    print(f"test accuracy {accuracy:.2%} on {options.device}")
