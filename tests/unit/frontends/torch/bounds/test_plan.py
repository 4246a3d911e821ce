"""Functions of tensors whose sizes are open, beside eager torch: what fills them never counts."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from xladev.frontends.torch import records
from xladev.frontends.torch.bounds import sizes

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh")]

SIZES = (5, 6, 3, 11, 9)


@pytest.fixture(autouse=True)
def no_exact_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "EXACT_SIZES", 0)


WEIGHT = torch.linspace(-1, 1, 20).reshape(4, 5)
FUNCTIONS: dict[str, Callable[[object], object]] = {
    "sum": lambda x: (x.sum(0), x.sum(), (x + 1).sum(1)),
    "mean": lambda x: (x.mean(0), x.mean(), (x + 1).mean(1)),
    "extremes": lambda x: (x.amax(0) - 9, x.amin(0) + 9, (x - 9).max(), (x + 9).min(0)[1]),
    "places": lambda x: ((x - 9).argmax(), (x - 9).argmax(0), (x + 9).argmin(1)),
    "all and any": lambda x: ((x > -9).all(0), (x > 9).any(), (x > 0).prod(0)),
    "softmax": lambda x: (x.softmax(0), x.log_softmax(0), x.softmax(1), x.logsumexp(0)),
    "norm": lambda x: (x.norm(dim=0), F.layer_norm(x, (4,)), F.normalize(x, dim=0)),
    "product": lambda x: (x @ WEIGHT, x.exp().T @ x, x @ x.T, (x + 1) @ (x.T + 1)),
    "product with a sum": lambda x: torch.addmm(WEIGHT[0], x, WEIGHT),
    "views": lambda x: (
        x.unsqueeze(0).expand(3, -1, 4).flatten(0, 1).square(),
        x.T.reshape(-1).exp(),
    ),
    "both ends": lambda x: (x[0], x[-1], x[-2] * 2, x[:2], x[:, 1:3]),
    "running sums": lambda x: x.cumsum(0),
    "triangles": lambda x: ((x @ x.T).tril(), (x @ x.T).triu().sum(0)),
    "counting": lambda x: torch.arange(x.shape[0]) + x.sum(1),
    "joined": lambda x: (torch.cat([x, x * 2], 1), torch.stack([x, x + 1]).sum((0, 1))),
    "sizes as numbers": lambda x: x.sum(0) / x.shape[0],
    "infinite where it is filled": lambda x: ((1 / (x * 0 + x)).sum(0), x.abs().log().T @ x),
}  # fmt: skip


def leaves(results: object) -> list[object]:
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients_are_eagers(name: str) -> None:
    function = FUNCTIONS[name]
    run = torch.compile(function, backend="xladev", options={"platform": "cpu"})
    for n in SIZES:
        x = torch.rand(n, 4) + 0.1
        x[0] = -x[0]
        results = []
        for each in (run, function):
            own = x.clone().requires_grad_()
            torch._dynamo.mark_dynamic(own, 0)
            made = leaves(each(own))
            real = [m for m in made if m.requires_grad]
            loss = sum((m * torch.linspace(1, 2, m.numel()).reshape(m.shape)).sum() for m in real)
            if real:
                loss.backward()
            results.append([*made, own.grad])
        torch.testing.assert_close(*results, rtol=2e-5, atol=2e-5)
    bound = [r.sizes for r in records.compiled_graphs() if r.is_bound and r.kind != "backward"]
    assert bound == [(8,), (16,)], bound
    assert not records.fallbacks()
