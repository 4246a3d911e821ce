"""Recurrent layers on the device, forward and backward, beside the host's."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "bias": False}])
def test_a_recurrent_layer(kind: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    host = getattr(nn, kind)(4, 5, **options)
    there = copy.deepcopy(host).to("npu")
    x = torch.rand(3, 2, 4)
    a, b = x.clone().requires_grad_(), x.to("npu").requires_grad_()
    wanted, found = host(a)[0], there(b)[0]
    wanted.sin().sum().backward()
    found.sin().sum().backward()
    torch.testing.assert_close(found.cpu(), wanted)
    torch.testing.assert_close(b.grad.cpu(), a.grad)
    for p, q in zip(there.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad)
    assert not xladev.torch.report().host
