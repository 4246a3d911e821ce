"""Optimisers' steps as one call give what the host's do, in programs that are kept."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")

OPTIMISERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Adam": (torch.optim.Adam, {}),
    "Adam that decays": (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.2}),
    "AdamW upwards": (torch.optim.AdamW, {"maximize": True, "betas": (0.8, 0.9)}),
    "AdamW, rate as a tensor": (torch.optim.AdamW, {"lr": torch.tensor(0.01)}),
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True,
                                            "weight_decay": 0.1}),
    "SGD that dampens": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
}  # fmt: skip


def trained(device: str, optimiser: Any, options: dict[str, Any], fused: bool) -> list[Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(device)
    kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    stepper = optimiser(model.parameters(), fused=fused, **kwargs)
    x = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]], device=device)
    for _ in range(5):
        stepper.zero_grad()
        (model(x) - 1).pow(2).sum().backward()
        stepper.step()
    return [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_step(name: str) -> None:
    if name == "Adagrad":
        wanted = trained("cpu", *OPTIMISERS[name], fused=False)
    else:
        wanted = trained("cpu", *OPTIMISERS[name], fused=True)
    before = xladev.torch.report().compiled
    found = trained("npu", *OPTIMISERS[name], fused=True)
    torch.testing.assert_close(found, wanted)
    assert xladev.torch.report().compiled - before <= 3
    assert not xladev.torch.report().host


def test_a_scaler_leaves_steps_out_whose_gradients_are_infinite() -> None:
    model = nn.Linear(2, 1).to("npu")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0)
    kept = model.weight.detach().clone()
    for factor, moves in ((float("inf"), False), (1.0, True)):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(1, 2, device="npu")).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(kept.cpu(), model.weight.detach().cpu()) is not moves
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
