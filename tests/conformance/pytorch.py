"""Tier 5, PyTorch: functions of each family of operators, and training steps, by `torch.compile`.

Each function runs as `torch.compile(backend="xladev", options={"platform": ...})` makes it, with
its gradient, and is held to eager torch in f64. torch itself may run nothing of it. Where torch is
not installed, or another version, the cases are unsupported and say so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xladev.errors import UnsupportedError
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import NotOffered, Probe

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""How far results in f32 may be from eager torch's in f64: of what is there, and anywhere."""
STEPS = 5


@contextmanager
def backend(probe: Probe) -> Iterator[Callable[..., Any]]:
    """`torch.compile` for the backend; nothing that it compiled is left behind.

    Raises:
        NotOffered: no torch, or one that the front end does not know.
    """
    try:
        import torch

        from xladev.frontends.torch import adapter, records

        adapter.check_version()
    except (ImportError, UnsupportedError) as error:
        raise NotOffered(f"PyTorch programs need xladev[torch]: {error}") from error
    records.forget()
    torch.manual_seed(0)
    try:
        yield lambda function: torch.compile(
            function, backend="xladev", options={"platform": probe.backend}
        )
        left = [f"{each.operator}: {each.reason}" for each in records.fallbacks()]
        probe.require(not left, "torch itself ran a part", "; ".join(left))
        probe.require(bool(records.compiled_graphs()), "nothing was compiled")
    finally:
        torch._dynamo.reset()
        records.forget()


def agree(probe: Probe, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """Requires the result and the gradients of a function of random numbers to be eager torch's."""
    with backend(probe) as compiled:
        import torch

        inputs = [torch.rand(shape) + 0.1 for shape in shapes]
        wanted = _derived(function, [x.double() for x in inputs])
        found = _derived(compiled(function), inputs)
        for at, (want, got) in enumerate(zip(wanted, found, strict=True)):
            _require_near(probe, got, want, "the result" if at == 0 else f"gradient {at - 1}")


def _derived(function: Callable[..., Any], inputs: list[Any]) -> list[Any]:
    """The result, then gradients of its sum of squares, where it has some."""
    taken = [x.clone().requires_grad_() for x in inputs]
    result = function(*taken)
    if not result.requires_grad:
        return [result]
    result.square().sum().backward()
    return [result.detach(), *(x.grad for x in taken if x.grad is not None)]


def _require_near(probe: Probe, got: Any, want: Any, what: str) -> None:
    probe.require(got.shape == want.shape, f"{what} has shape {list(got.shape)}", f"{want.shape}")
    away = (got.double() - want.double()).abs()
    allowed = ABSOLUTE + RELATIVE * want.double().abs()
    off = float((away - allowed).max())
    probe.require(off <= 0, f"{what} is off by {float(away.max()):.3g}", f"beyond by {off:.3g}")


def check_elementwise(probe: Probe) -> None:
    agree(probe, lambda x, y: (x * y - x / y) ** 2 + x.exp() * y.sin(), (3, 5), (5,))


def check_comparison(probe: Probe) -> None:
    agree(probe, lambda x, y: x.where(x > y, y * 2) + x.maximum(y), (3, 5), (3, 5))


def check_views(probe: Probe) -> None:
    agree(probe, lambda x: x.permute(2, 0, 1).reshape(4, 6)[:, ::2].flip(0).contiguous(), (2, 3, 4))


def check_reductions(probe: Probe) -> None:
    agree(probe, lambda x: x.sum(1) + x.var(1) + x.amax(1) + x.logsumexp(1), (4, 7))


def check_cumulative(probe: Probe) -> None:
    agree(probe, lambda x: x.cumsum(1) + x.cumprod(1), (3, 5))


def check_sorting(probe: Probe) -> None:
    agree(probe, lambda x: x.sort(1).values[:, 1:] * x.topk(4, 1).values, (3, 5))


def check_indexing(probe: Probe) -> None:
    def function(x: Any) -> Any:
        import torch

        rows = torch.tensor([2, 0, 2])
        return x[rows] + x.index_add(0, rows, x[:3]).gather(0, rows[:, None].expand(3, 5))

    agree(probe, function, (4, 5))


def check_products(probe: Probe) -> None:
    agree(probe, lambda x, w, b: x @ w + b, (2, 3, 4), (4, 5), (5,))


def check_convolution(probe: Probe) -> None:
    def function(x: Any, w: Any) -> Any:
        import torch

        return torch.nn.functional.conv2d(x, w, stride=2, padding=1)

    agree(probe, function, (2, 3, 8, 8), (4, 3, 3, 3))


def check_normalization(probe: Probe) -> None:
    def function(x: Any, w: Any) -> Any:
        import torch

        return torch.nn.functional.layer_norm(x, (6,), w)

    agree(probe, function, (4, 6), (6,))


def check_activations(probe: Probe) -> None:
    def function(x: Any) -> Any:
        import torch

        f = torch.nn.functional
        return f.gelu(x) + f.silu(x) + f.softmax(x, -1) + f.softplus(x)

    agree(probe, function, (4, 6))


def check_attention(probe: Probe) -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    agree(probe, function, (1, 2, 6, 4), (1, 2, 6, 4), (1, 2, 6, 4))


def check_resampling(probe: Probe) -> None:
    def function(x: Any) -> Any:
        import torch

        return torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")

    agree(probe, function, (1, 2, 4, 4))


def check_distances(probe: Probe) -> None:
    def function(x: Any, y: Any) -> Any:
        import torch

        return torch.nn.functional.pairwise_distance(x, 3 * y)

    agree(probe, function, (3, 4), (3, 4))


def check_special(probe: Probe) -> None:
    agree(probe, lambda x: x.lgamma() + x.erf() + x.digamma(), (3, 5))


def check_pooling(probe: Probe) -> None:
    def function(x: Any) -> Any:
        import torch

        f = torch.nn.functional
        return f.max_pool2d(x, 2) + f.avg_pool2d(x, 2)

    agree(probe, function, (1, 2, 6, 6))


def check_linear_algebra(probe: Probe) -> None:
    def function(x: Any, y: Any) -> Any:
        import torch

        return torch.linalg.solve(x + 4 * torch.eye(4, dtype=x.dtype), y)

    agree(probe, function, (4, 4), (4, 2))


def check_fourier(probe: Probe) -> None:
    def function(x: Any) -> Any:
        import torch

        return torch.fft.rfft(x).abs()

    agree(probe, function, (3, 8))


def check_random(probe: Probe) -> None:
    """Its numbers are no other's: what they are like."""
    with backend(probe) as compiled:
        import torch

        drawn = compiled(lambda x: torch.rand_like(x))(torch.zeros(4096))
        again = compiled(lambda x: torch.rand_like(x))(torch.zeros(4096))
        probe.require(bool(((drawn >= 0) & (drawn < 1)).all()), "numbers outside of [0, 1)")
        probe.require(abs(float(drawn.mean()) - 0.5) < 0.05, f"mean {float(drawn.mean())}")
        probe.require(not torch.equal(drawn, again), "the same numbers twice")


def check_training_steps(probe: Probe) -> None:
    """Forward, backward and the optimiser's step, weights and buffers changed in place."""
    with backend(probe) as compiled:
        import torch

        nn = torch.nn
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
            nn.Linear(64, 3),
        )  # fmt: skip
        other = copy.deepcopy(model).double()
        x, target = torch.rand(4, 1, 4, 4), torch.tensor([0, 2, 1, 0])
        found = _trained(model, x, target, compiled)
        wanted = _trained(other, x.double(), target, lambda function: function)
        _require_near(probe, found, wanted, "a loss")
        for got, want in zip(model.buffers(), other.buffers(), strict=True):
            _require_near(probe, got, want, "a buffer")


def _trained(model: Any, x: Any, target: Any, compiled: Callable[..., Any]) -> Any:
    """The losses of the first steps of SGD with momentum."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    forward, step = compiled(model), compiled(optimizer.step)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(forward(x), target)
        loss.backward()
        step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses)


CASES = tuple(
    replace(check, tags=("torch",), timeout_s=300.0) for check in checks_of(__name__, 5, globals())
)
