"""Steps of optimisers that torch calls whole (`fused=True`), as operators of the device.

Torch has kernels of its own for them, and writes to lists where one may be empty, which its
functional form of views does not bear. Source: the algorithms in torch's documentation of
`torch.optim.Adam`, `AdamW`, `SGD` and `Adagrad`; numbers of steps are tensors and were counted up
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from xladev.frontends.torch.device import hooks


def register_fused(library: torch.library.Library) -> None:
    """Gives torch the kernels of `STEPS`, for tensors of the device."""
    for name, step in STEPS.items():
        for overload in ("", ".tensor_lr"):
            library.impl(f"aten::{name}{overload}", step, hooks.AUTOGRAD)


class _Scaler:
    """What `torch.amp.GradScaler` gives to a step: gradients divided, and steps left out."""

    def __init__(self, grad_scale: Tensor | None, found_inf: Tensor | None) -> None:
        self.scale = grad_scale
        self.found_inf = found_inf

    def gradient(self, grad: Tensor, maximize: bool) -> Tensor:
        """The gradient to go against, without its scale, which the user's loses too."""
        if self.scale is not None:
            grad.div_(self.scale)
        return grad.neg() if maximize else grad

    def put(self, target: Tensor, value: Tensor) -> None:
        """Writes, unless a gradient was infinite."""
        if self.found_inf is not None:
            value = torch.where(self.found_inf.to(torch.bool), target, value)
        target.copy_(value)


def _adam(is_decoupled: bool) -> Callable[..., None]:
    def step(
        params: Sequence[Tensor], grads: Sequence[Tensor], means: Sequence[Tensor],
        squares: Sequence[Tensor], largest: Sequence[Tensor], steps: Sequence[Tensor], *,
        lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool,
        maximize: bool, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
    ) -> None:  # fmt: skip
        scaler = _Scaler(grad_scale, found_inf)
        with torch.no_grad():
            for at, (param, count) in enumerate(zip(params, steps, strict=True)):
                grad = scaler.gradient(grads[at], maximize)
                new = param
                if weight_decay and is_decoupled:
                    new = new - new * (lr * weight_decay)
                elif weight_decay:
                    grad = grad.add(new, alpha=weight_decay)
                mean = means[at].lerp(grad, 1 - beta1)
                square = (squares[at] * beta2).addcmul(grad, grad, value=1 - beta2)
                seen = torch.maximum(largest[at], square) if amsgrad else square
                root = seen.sqrt() / (1 - beta2**count).sqrt() + eps
                scaler.put(param, new - mean / root / (1 - beta1**count) * lr)
                scaler.put(means[at], mean)
                scaler.put(squares[at], square)
                if amsgrad:
                    scaler.put(largest[at], seen)

    return step


def _sgd(
    params: Sequence[Tensor], grads: Sequence[Tensor], momenta: Sequence[Tensor], *,
    weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool,
    maximize: bool, is_first_step: bool, grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    scaler = _Scaler(grad_scale, found_inf)
    with torch.no_grad():
        for at, param in enumerate(params):
            grad = scaler.gradient(grads[at], maximize)
            if weight_decay:
                grad = grad.add(param, alpha=weight_decay)
            if momentum:
                held = momenta[at]
                new = grad if is_first_step else (held * momentum).add(grad, alpha=1 - dampening)
                scaler.put(held, new)
                grad = grad.add(new, alpha=momentum) if nesterov else new
            scaler.put(param, param - grad * lr)


def _adagrad(
    params: Sequence[Tensor], grads: Sequence[Tensor], sums: Sequence[Tensor],
    steps: Sequence[Tensor], *, lr: Any, lr_decay: float, weight_decay: float, eps: float,
    maximize: bool, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
) -> None:  # fmt: skip
    scaler = _Scaler(grad_scale, found_inf)
    with torch.no_grad():
        for at, (param, count) in enumerate(zip(params, steps, strict=True)):
            grad = scaler.gradient(grads[at], maximize)
            if weight_decay:
                grad = grad.add(param, alpha=weight_decay)
            total = sums[at].addcmul(grad, grad)
            rate = 1 / (1 + (count - 1) * lr_decay)
            scaler.put(param, param - grad / (total.sqrt() + eps) * rate * lr)
            scaler.put(sums[at], total)


STEPS: Mapping[str, Callable[..., None]] = {
    "_fused_adam_": _adam(is_decoupled=False),
    "_fused_adamw_": _adam(is_decoupled=True),
    "_fused_sgd_": _sgd,
    "_fused_adagrad_": _adagrad,
}
"""By operator, what it does."""
