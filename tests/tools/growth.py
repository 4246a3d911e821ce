"""How work grows with the size of the input, counted in calls of functions and not timed."""

from collections.abc import Callable
from typing import TypeVar

from tests.tools.profiled_calls import calls

Made = TypeVar("Made")


def growth(
    work: Callable[[Made], object], make: Callable[[int], Made], small: int, large: int
) -> float:
    """Calls per unit at size `large`, over those at `small`: about 1 where linear."""
    costs: list[float] = []
    for size in (small, large):
        made = make(size)
        costs.append(calls(lambda made=made: work(made)) / size)
    return costs[1] / costs[0]
