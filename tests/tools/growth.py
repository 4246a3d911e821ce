"""How a cost grows with the size of the input.

The collector is off while a cost is taken: one of its full passes walks all that the process holds,
which among thousands of collected tests is more than the work measured.
"""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


def growth(
    work: Callable[[Made], object], make: Callable[[int], Made], small: int, large: int
) -> float:
    """Seconds of CPU per unit at size `large`, over those at `small`: about 1 where linear.

    Each is the fastest of three, taken in turns.
    """
    inputs = {size: make(size) for size in (small, large)}
    costs = dict.fromkeys(inputs, float("inf"))
    for _ in range(3):
        for size, made in inputs.items():
            costs[size] = min(costs[size], seconds(lambda made=made: work(made)) / size)
    return costs[large] / costs[small]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call, the collector off."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()
