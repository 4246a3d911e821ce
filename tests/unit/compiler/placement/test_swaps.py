"""Labels against all labels there are."""

import itertools
import random

import pytest

from xladev.compiler.placement.swaps import LabelProblem, Value, cheapest_labels


def random_problem(seed: int, units: int, labels: int) -> LabelProblem:
    rng = random.Random(seed)
    work: list[list[int | None]] = []
    for _ in range(units):
        row: list[int | None] = [rng.choice((None, rng.randrange(30))) for _ in range(labels)]
        row[rng.randrange(labels)] = rng.randrange(30)
        work.append(row)
    values = [
        Value(at, tuple(sorted(rng.sample(range(at + 1, units), rng.randrange(1, units - at)))),
              rng.randrange(1, 5))
        for at in range(units - 1)
    ]  # fmt: skip
    speed = [[rng.randrange(1, 6) for _ in range(labels)] for _ in range(labels)]
    return LabelProblem(work, values, lambda nbytes, a, b: 0 if a == b else nbytes * speed[a][b])


def start_of(problem: LabelProblem) -> list[int]:
    return [next(n for n, time in enumerate(row) if time is not None) for row in problem.work]


def best(problem: LabelProblem) -> int:
    choices = [[n for n, time in enumerate(row) if time is not None] for row in problem.work]
    return min(problem.time(labels) for labels in itertools.product(*choices))


def is_legal(problem: LabelProblem, labels: list[int]) -> bool:
    return all(row[n] is not None for row, n in zip(problem.work, labels, strict=True))


@pytest.mark.parametrize("seed", range(80))
def test_two_labels_are_exact(seed: int) -> None:
    problem = random_problem(seed, 2 + seed % 8, 2)
    labels = cheapest_labels(problem, start_of(problem))
    assert is_legal(problem, labels)
    assert problem.time(labels) == best(problem)


def test_three_labels_are_near_the_best() -> None:
    ratios: list[float] = []
    for seed in range(60):
        problem = random_problem(1000 + seed, 7, 3)
        labels = cheapest_labels(problem, start_of(problem))
        assert is_legal(problem, labels)
        ratios.append(problem.time(labels) / max(best(problem), 1))
    assert min(ratios) >= 1
    assert sum(ratio == 1 for ratio in ratios) >= 45
    assert sum(ratios) / len(ratios) < 1.03


def test_nothing_to_label() -> None:
    assert cheapest_labels(LabelProblem([], [], lambda *_: 0), []) == []
