"""Random numbers follow the distributions that torch's documentation names."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
stats = pytest.importorskip("scipy.stats")

from xladev.frontends.torch import records
from xladev.frontends.torch.lower.random import RANDOM

pytestmark = pytest.mark.long

N = 20_000
LEAST = 1e-4
"""Probability below which a statistic counts as wrong; the seed is fixed."""

Draw = Callable[[], Any]

CONTINUOUS: Mapping[str, tuple[Draw, Any]] = {
    "rand.default": (lambda: torch.rand(N), stats.uniform()),
    "rand_like.default": (lambda: torch.rand_like(torch.empty(N)), stats.uniform()),
    "randn.default": (lambda: torch.randn(N), stats.norm()),
    "randn_like.default": (lambda: torch.randn_like(torch.empty(N)), stats.norm()),
    "normal.float_float": (lambda: torch.normal(2.0, 3.0, (N,)), stats.norm(2, 3)),
    "normal.Tensor_Tensor": (
        lambda: torch.normal(torch.full((N,), 2.0), torch.full((N,), 0.5)),
        stats.norm(2, 0.5),
    ),
    "normal.Tensor_float": (lambda: torch.normal(torch.full((N,), 2.0), 0.5), stats.norm(2, 0.5)),
    "normal.float_Tensor": (lambda: torch.normal(2.0, torch.full((N,), 0.5)), stats.norm(2, 0.5)),
    "normal_functional.default": (lambda: torch.empty(N).normal_(-1, 2), stats.norm(-1, 2)),
    "uniform.default": (lambda: torch.empty(N).uniform_(-1, 3), stats.uniform(-1, 4)),
    "exponential.default": (lambda: torch.empty(N).exponential_(4.0), stats.expon(scale=0.25)),
    "cauchy.default": (lambda: torch.empty(N).cauchy_(1.0, 2.0), stats.cauchy(1, 2)),
    "log_normal.default": (
        lambda: torch.empty(N).log_normal_(0.5, 0.25),
        stats.lognorm(0.25, scale=float(np.exp(0.5))),
    ),
    "rrelu_with_noise_functional.default": (
        lambda: torch.nn.functional.rrelu(-torch.ones(N), 0.25, 0.5, training=True),
        stats.uniform(-0.5, 0.25),
    ),
}
"""By overload: what draws, and the distribution."""

WEIGHTS = (0.1, 0.0, 0.6, 0.3)
_bernoulli = {0.0: 0.7, 1.0: 0.3}
_geometric = {float(k): 0.4 * 0.6 ** (k - 1) for k in range(1, 12)}

DISCRETE: Mapping[str, tuple[Draw, Mapping[float, float]]] = {
    "randint.default": (lambda: torch.randint(5, (N,)), dict.fromkeys(map(float, range(5)), 0.2)),
    "randint.low": (
        lambda: torch.randint(-2, 2, (N,)),
        dict.fromkeys((-2.0, -1.0, 0.0, 1.0), 0.25),
    ),
    "randint_like.default": (
        lambda: torch.randint_like(torch.empty(N), 2),
        dict.fromkeys((0.0, 1.0), 0.5),
    ),
    "randint_like.low_dtype": (
        lambda: torch.randint_like(torch.empty(N), 3, 5),
        dict.fromkeys((3.0, 4.0), 0.5),
    ),
    "random.from": (lambda: torch.empty(N).random_(3, 5), dict.fromkeys((3.0, 4.0), 0.5)),
    "random.to": (lambda: torch.empty(N).random_(2), dict.fromkeys((0.0, 1.0), 0.5)),
    "random.default": (
        lambda: torch.empty(N, dtype=torch.bool).random_(),
        dict.fromkeys((0.0, 1.0), 0.5),
    ),
    "bernoulli.default": (lambda: torch.bernoulli(torch.full((N,), 0.3)), _bernoulli),
    "bernoulli.Tensor": (lambda: torch.empty(N).bernoulli_(torch.full((N,), 0.3)), _bernoulli),
    "bernoulli.p": (lambda: torch.empty(N).bernoulli_(0.3), _bernoulli),
    "geometric.default": (lambda: torch.empty(N).geometric_(0.4), _geometric),
    "multinomial.default": (
        lambda: torch.multinomial(torch.tensor(WEIGHTS), N, replacement=True),
        {float(at): weight for at, weight in enumerate(WEIGHTS)},
    ),
    "native_dropout.default": (
        lambda: torch.nn.functional.dropout(torch.ones(N), 0.75),
        {0.0: 0.75, 4.0: 0.25},
    ),
}

ELSEWHERE = {"rand.generator", "randn.generator", "randperm.default"}
"""Overloads that draw as others of the table do, or have a test of their own."""


@pytest.fixture(scope="module")
def drawn() -> Iterator[Mapping[str, Any]]:
    """Everything drawn by one program that torch runs no part of."""
    torch._dynamo.reset()
    records.forget()
    names = [*CONTINUOUS, *DISCRETE]
    functions = [{**CONTINUOUS, **DISCRETE}[name][0] for name in names]

    def draw() -> list[Any]:
        made = [function() for function in functions]
        return [*made, torch.randperm(100), torch.multinomial(torch.ones(500, 4), 2)]

    run = torch.compile(draw, backend="xladev", options={"platform": "cpu", "strict": True})
    torch.manual_seed(1)
    yield dict(zip([*names, "randperm", "multinomial"], run(), strict=True))
    records.forget()


def test_each_overload_is_drawn_from() -> None:
    lowered = {each.overload.removeprefix("aten.") for each in RANDOM}
    assert {*CONTINUOUS, *DISCRETE} | ELSEWHERE == lowered


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(drawn: Mapping[str, Any], name: str) -> None:
    values = drawn[name].double().numpy()
    assert values.shape == (N,)
    assert stats.kstest(values, CONTINUOUS[name][1].cdf).pvalue > LEAST
    assert len(np.unique(values)) > 0.99 * N, "numbers come again"
    ranks = values.argsort().argsort()
    assert abs(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) < 0.05


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(drawn: Mapping[str, Any], name: str) -> None:
    values, odds = drawn[name].double().numpy(), DISCRETE[name][1]
    assert values.shape == (N,)
    counts = np.array([(values == value).sum() for value in odds])
    wanted = N * np.array(list(odds.values()))
    assert counts[wanted == 0].sum() == 0
    rest = np.array([N - counts.sum(), N - wanted.sum()]).clip(0)
    if rest[1] > 5:  # what the table leaves out
        counts, wanted = np.append(counts, rest[0]), np.append(wanted, rest[1])
    else:
        assert rest[0] == 0
    used = wanted > 0
    assert stats.chisquare(counts[used], wanted[used]).pvalue > LEAST


def test_a_permutation_has_each_number_once(drawn: Mapping[str, Any]) -> None:
    order = drawn["randperm"].tolist()
    assert sorted(order) == list(range(100)) != order


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_exponential_numbers_are_above_zero(dtype: Any) -> None:
    draw = torch.compile(lambda: torch.empty(1 << 17, dtype=dtype).exponential_(), backend="xladev")
    torch.manual_seed(1)
    assert (draw() > 0).all()


def test_places_drawn_without_replacement_differ(drawn: Mapping[str, Any]) -> None:
    first, second = drawn["multinomial"].unbind(1)
    assert not (first == second).any()
    counts = torch.bincount(torch.cat([first, second]), minlength=4).numpy()
    assert stats.chisquare(counts).pvalue > LEAST
