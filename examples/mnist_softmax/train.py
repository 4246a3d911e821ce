"""Trains softmax regression on handwritten digits, on any platform, from an exported HLO program.

python train.py                       the 8x8 digits of this example, on the best platform here
python train.py --platform cpu        on the platform named
python train.py --data FOLDER         MNIST, where you have its four IDX files
python train.py --op-by-op            each instruction launched by itself, without fusion

Writes what the last step did: timeline.ctf.json, for Perfetto and chrome://tracing, and its graph,
coloured by time, as step.html and step.svg.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from os import devnull
from pathlib import Path

import datasets
import numpy as np

import xladev
from xladev.cli.main import main as xladev_command
from xladev.client import CompiledModule
from xladev.profiling.timeline.session import Timeline

PROGRAMS = Path(__file__).parent / "programs"
CLASSES = 10
BATCH = 100
REPORTS = 10
TIMELINE = "timeline.ctf.json"
PICTURES = ("step.html", "step.svg")
WRITTEN = {
    TIMELINE: "its timeline: open it in https://ui.perfetto.dev or chrome://tracing",
    "step.html": "its graph, coloured by time: open it in a browser",
    "step.svg": "the same as a picture",
}


def batches(data: datasets.Dataset, seed: int) -> Iterator[tuple[datasets.Array, datasets.Array]]:
    """Full batches of the training set without end, shuffled anew for each pass over it."""
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(len(data.train_x))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            yield data.train_x[chosen], data.train_y[chosen]


def load(name: str, features: int, options: argparse.Namespace) -> CompiledModule:
    """The exported program `name` for that many features, compiled for the platform."""
    how = xladev.CompileOptions(op_by_op=options.op_by_op)
    program = xladev.load(PROGRAMS / f"{name}_{features}.pb")
    return xladev.compile(program, options.platform, how)


def train(data: datasets.Dataset, options: argparse.Namespace) -> list[object]:
    """The weights [w, b] after all steps. They stay on the device from step to step."""
    features, steps = data.train_x.shape[1], options.steps
    step = load("step", features, options)
    w, b = np.zeros((features, CLASSES), np.float32), np.zeros(CLASSES, np.float32)
    for number, (x, y) in zip(range(1, steps + 1), batches(data, options.seed), strict=False):
        recording = xladev.profile(options.out / TIMELINE) if number == steps else nullcontext()
        with recording as timeline:
            w, b, loss = step(w, b, x, y)
        if number % max(1, steps // REPORTS) == 0:
            print(f"step {number:5}  loss {float(loss.numpy()):.4f}", flush=True)
        if timeline is not None:
            draw(features, step.devices[0].platform, timeline, options)
    return [w, b]


def draw(features: int, platform: str, timeline: Timeline, options: argparse.Namespace) -> None:
    """The graph of the last step: its kernels, or its instructions, with their times."""
    words = ["graph", str(PROGRAMS / f"step_{features}.pb"), "--platform", platform, "--entry"]
    if any(event.category == "kernel" for event in timeline.events):
        words += ["--trace", str(timeline.path)]
    if options.op_by_op:
        words.append("--unfused")
    for name in PICTURES:
        with open(devnull, "w") as nothing, redirect_stdout(nothing):
            xladev_command([*words, "-o", str(options.out / name)])
    print(f"what the last step did is written to {options.out.resolve()}:")
    for name, what in WRITTEN.items():
        print(f"  {name:18} {what}")


def accuracy(data: datasets.Dataset, options: argparse.Namespace, weights: list[object]) -> float:
    """The share of the test set that the weights name rightly, over whole batches."""
    predict = load("predict", data.test_x.shape[1], options)
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
    parser.add_argument("--op-by-op", action="store_true", help="launch each instruction alone")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of pictures (default: .)")
    return parser.parse_args()


def main() -> None:
    """Train, test, and say how it went."""
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    data = datasets.read_mnist(options.data) if options.data else datasets.read_digits()
    start = time.perf_counter()
    weights = train(data, options)
    share = accuracy(data, options, weights)
    seconds = time.perf_counter() - start
    print(
        f"test accuracy {share:.1%} after {options.steps} steps, {seconds:.1f} s with compilation"
    )


if __name__ == "__main__":
    main()
