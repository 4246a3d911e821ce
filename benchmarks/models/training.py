"""Steps of training in PyTorch: a loss and its gradients.

The optimizer is left out: it is elementwise, and each library would be given another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy


class TextLoss(nn.Module):
    """How badly a model of transformers tells the next token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Of (batch, tokens), the mean cross entropy."""
        return self.model(input_ids=ids, labels=ids).loss


class ClassLoss(nn.Module):
    """How badly a model tells classes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, given: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Of inputs and (batch,), the mean cross entropy."""
        return cross_entropy(self.model(given), classes)


def training_call(module: nn.Module, run: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """A function that makes a step and returns the loss and the gradients.

    Args:
        module: whose weights have gradients.
        run: the module, or what was compiled of it.
        inputs: of it.
    """

    def call() -> list[torch.Tensor]:
        module.zero_grad(set_to_none=True)
        loss = run(*inputs)
        loss.backward()
        loss.item()
        return [loss.detach(), *(each.grad for each in module.parameters())]

    return call
