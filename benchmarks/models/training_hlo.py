"""A step of training as HLO: a loss and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.models.networks import Tensors
from xladev.frontends.torch.export import exported_module
from xladev.hlo.ir import HloModule


class _Step(nn.Module):
    """Loss and gradients as a graph of operators, of weights, buffers and inputs."""

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, weights: Any, held: Any, given: Any) -> Any:
        return self.graph(weights, held, given)


def training_module(module: nn.Module, inputs: Tensors) -> tuple[HloModule, list[torch.Tensor]]:
    """A step as HLO whose parameters are weights, buffers and inputs, in the module's order.

    Its result is the loss, and the gradient of each weight. What it writes into buffers is left
    out.

    Args:
        module: gives a loss.
        inputs: of it.

    Returns:
        The HLO, and weights and buffers.
    """
    forward = torch.export.export(module, inputs, strict=False).module()
    weights, buffers = dict(forward.named_parameters()), dict(forward.named_buffers())

    def step(own: Sequence[torch.Tensor], held: Any, given: Any) -> Tensors:
        named = dict(zip(weights, own, strict=True)) | dict(zip(buffers, held, strict=True))
        loss = torch.func.functional_call(forward, named, tuple(given))
        return (loss, *torch.autograd.grad(loss, own))

    held = [each.clone() for each in buffers.values()]
    graph = make_fx(step)([*weights.values()], [each.clone() for each in held], [*inputs])
    own = [each.detach() for each in weights.values()]
    program = torch.export.export(_Step(graph), (own, held, [*inputs]), strict=False)
    return exported_module(program, weights="parameters", name="training_step"), [*own, *held]
