"""What training holds: gradients, once, and nothing of a step that is over."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import xladev

pytestmark = pytest.mark.usefixtures("fresh")

STEPS = 5


def held() -> int:
    """Bytes of results that are alive."""
    return xladev.devices("cpu")[0].memory_stats().nbytes_in_use


def nbytes(tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def test_gradients_have_the_same_places_from_the_first_step_on() -> None:
    """A place of its own for calls of another kind would be memory that is never used again."""
    model = torch.nn.Sequential(
        torch.nn.Linear(300, 700), torch.nn.ReLU(), torch.nn.Linear(700, 301)
    )
    run = torch.compile(model, backend="xladev", options={"platform": "cpu"})
    x = torch.rand(8, 300)
    before, places = held(), set()
    for _ in range(STEPS):
        run(x).square().mean().backward()
        gradients = [p.grad for p in model.parameters()]
        assert held() - before == nbytes(gradients)
        places.add(tuple(sorted(g.data_ptr() for g in gradients)))
        del gradients
        model.zero_grad()
        assert held() == before
    assert len(places) == 1
