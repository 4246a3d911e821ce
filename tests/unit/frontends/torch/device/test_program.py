"""Programs of the device: what is compiled, how often, and what is let go."""

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")

OPTIMISERS: dict[str, Any] = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 1e-2},
    "AdamW": {"lr": 1e-2},
    "RMSprop": {"lr": 1e-2},
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_training_loop_compiles_in_its_first_steps_alone(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to("npu")
    optimizer = getattr(torch.optim, name)(model.parameters(), **OPTIMISERS[name])
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    x, y = torch.rand(5, 8).to("npu"), torch.tensor([0, 1, 2, 1, 0]).to("npu")
    compiled, losses = [], []
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        compiled.append(xladev.torch.report().compiled)
    assert compiled[2] == compiled[-1], compiled
    assert losses[-1] < losses[0]
    assert not xladev.torch.report().host


def test_what_nobody_holds_is_not_computed() -> None:
    x = torch.ones(4, device="npu")
    _ = [x.exp() for _ in range(5)]
    del _
    y = x + 1
    xladev.torch.step()
    assert y.tolist() == [2, 2, 2, 2]
    assert xladev.torch.report().ran == 1


def test_memory_returns_to_its_level_after_each_step() -> None:
    model = nn.Linear(64, 64).to("npu")
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.rand(8, 64).to("npu")
    levels = []
    for _ in range(6):
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()
        torch.npu.synchronize()
        gc.collect()
        levels.append(torch.npu.memory_allocated())
    assert levels[2] == levels[-1], levels


def test_a_long_chain_is_computed_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xladev.frontends.torch.device.record.BOUND", 50)
    x = torch.zeros(2, device="npu")
    for _ in range(220):
        x = x + 1
    assert xladev.torch.report().ran >= 3
    assert x.tolist() == [220, 220]
    assert xladev.torch.report().compiled <= 4
