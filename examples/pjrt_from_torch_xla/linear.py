"""A linear layer of PyTorch, forward and backward, through torch_xla on a platform of xladev.

    pip install torch==2.9.0 torch_xla==2.9.0 xladev xladev-pjrt   # in an environment of its own
    python linear.py

torch_xla hands over HLO: neither JAX nor jaxlib is needed. The loss and each gradient are compared
with those that PyTorch computes itself.
"""

from __future__ import annotations

import os

import xladev_pjrt

os.environ |= {"PJRT_DEVICE": "LIBRARY", "PJRT_LIBRARY_PATH": str(xladev_pjrt.library_path())}

import torch
import torch_xla


def loss_and_gradients(
    layer: torch.nn.Linear, x: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The mean square of the layer's output, and the gradients of its parameters."""
    loss = (layer(x) ** 2).mean()
    loss.backward()
    return loss.detach(), [p.grad for p in layer.parameters() if p.grad is not None]


def main() -> None:
    """See the module."""
    device = torch_xla.device()  # before PyTorch's first backward, which counts the devices
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(8, 4), torch.randn(16, 8)
    wanted, wanted_gradients = loss_and_gradients(layer, x)
    layer.zero_grad()
    loss, gradients = loss_and_gradients(layer.to(device), x.to(device))
    torch_xla.sync()
    print(f"loss on {device}: {loss.cpu():.6f}, in PyTorch {wanted:.6f}")
    assert torch.allclose(loss.cpu(), wanted)
    for gradient, expected in zip(gradients, wanted_gradients, strict=True):
        difference = (gradient.cpu() - expected).abs().max()
        print(f"gradient {tuple(gradient.shape)}: largest difference {difference:.1e}")
        assert difference < 1e-6


if __name__ == "__main__":
    main()
