"""Python threads that train on xladev's TensorFlow device at once: no deadlock, and flat memory.

    python benchmarks/tensorflow_threads.py [--steps 10000] [--threads 4] [--json]

Each thread has its own model and a `tf.data` pipeline with a map in Python's threads and prefetch;
threads differ in how they run a step: compiled, as a graph, operator by operator. Where no thread
makes a step for `--stall` seconds the process prints where each stands, and fails. The device is
that of the environment (docs/how-to/use-tensorflow.md); the plugin is installed.
"""

import argparse
import faulthandler
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

FEATURES, CLASSES, BATCH, EXAMPLES = 32, 10, 16, 512
SAMPLES = 20
POLL_S = 0.2
Step = Callable[[Any, Any], Any]


@dataclass
class Progress:
    """How far the threads are."""

    steps: list[int]
    losses: list[list[float]]
    """The first and the latest loss of each thread."""


@dataclass(frozen=True)
class Result:
    """Of a whole run."""

    steps: int
    seconds: float
    processor_s: float
    resident_mib: list[float]
    """Memory of the process at equal parts of the steps."""
    growth_mib: float
    """From the end of the first fifth to the end."""
    losses: list[list[float]]
    failures: list[str]


def resident_mib() -> float:
    """Memory of this process that is in RAM."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _examples(seed: int) -> Any:
    """Batches of numbers and of the classes that a random matrix gives them, without end."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(EXAMPLES, FEATURES)).astype("f")
    y = (x @ random.normal(size=(FEATURES, CLASSES))).argmax(1).astype("i")
    whole = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(EXAMPLES, seed=seed).repeat()
    scaled = whole.map(lambda a, b: (a * 0.5, b), num_parallel_calls=2)
    return scaled.batch(BATCH, drop_remainder=True).prefetch(4)


def _plain_step(seed: int) -> Step:
    """A layer's training by gradient descent, operator by operator."""
    start = np.random.default_rng(seed).normal(size=(FEATURES, CLASSES)).astype("f") * 0.1
    weights, bias = tf.Variable(start), tf.Variable(tf.zeros([CLASSES]))

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = x @ weights + bias
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            )
        of_weights, of_bias = tape.gradient(loss, [weights, bias])
        weights.assign_sub(0.1 * of_weights)
        bias.assign_sub(0.1 * of_bias)
        return loss

    return step


def _step(number: int) -> Step:
    """The step of a thread, in one of three ways."""
    plain = _plain_step(number)
    ways = (lambda f: tf.function(f, jit_compile=True), tf.function, lambda f: f)
    return ways[number % len(ways)](plain)


def _train(number: int, steps: int, progress: Progress) -> None:
    """What a thread does."""
    with tf.device("XLADEV:0"):
        step = _step(number)
    for count, (x, y) in enumerate(_examples(number).take(steps), 1):
        with tf.device("XLADEV:0"):
            loss = float(step(x, y))
        progress.losses[number][count > 1 :] = [loss]
        progress.steps[number] = count


def _watch(threads: list[threading.Thread], progress: Progress, stall_s: float) -> Iterator[int]:
    """The number of steps made so far, until the threads end; ends the process if none is made."""
    seen, moved = list(progress.steps), time.monotonic()
    while any(thread.is_alive() for thread in threads):
        time.sleep(POLL_S)
        if progress.steps != seen:
            seen, moved = list(progress.steps), time.monotonic()
        if time.monotonic() - moved > stall_s:
            faulthandler.dump_traceback(all_threads=True)
            print(f"no step in {stall_s} s; steps made: {seen}", file=sys.stderr, flush=True)
            os._exit(1)
        yield sum(seen)


def measure(threads: int, steps: int, stall_s: float) -> Result:
    """Runs the threads; `steps` are those of each."""
    progress = Progress([0] * threads, [[] for _ in range(threads)])
    workers = [
        threading.Thread(target=_train, args=(n, steps, progress), daemon=True)
        for n in range(threads)
    ]
    began, processor = time.monotonic(), time.process_time()
    for worker in workers:
        worker.start()
    memory: list[float] = []
    for made in _watch(workers, progress, stall_s):
        while len(memory) < made * SAMPLES // (threads * steps):
            memory.append(resident_mib())
    memory.append(resident_mib())
    failures = [
        f"thread {n} ended after {made} of {steps} steps"
        for n, made in enumerate(progress.steps)
        if made < steps
    ]
    return Result(
        sum(progress.steps), time.monotonic() - began, time.process_time() - processor, memory,
        memory[-1] - memory[min(SAMPLES // 5, len(memory) - 1)], progress.losses, failures,
    )  # fmt: skip


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000, help="of each thread")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--stall", type=float, default=120.0, help="seconds without a step")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = measure(given.threads, given.steps, given.stall)
    if given.json:
        print(json.dumps(asdict(result)))
    else:
        print(f"{result.steps} steps of {given.threads} threads in {result.seconds:.0f} s "
              f"({result.processor_s:.0f} s of processor time)")  # fmt: skip
        print("resident memory, MiB:", " ".join(f"{m:.0f}" for m in result.resident_mib))
        print(f"growth after the first fifth: {result.growth_mib:+.1f} MiB")
    sys.exit("\n".join(result.failures) or None)


if __name__ == "__main__":
    main()
