"""Functions of torch that ask a tensor for its memory, or an operator's sizes, get another form.

They are private in torch; `methods` does the same for methods and functions that users call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _meta_registrations

from xladev.frontends.torch.device import hooks


def patch_checks() -> None:
    """Operators in place are told at once that equal sizes fit.

    Torch asks a function in Python before each, which takes 12 us of an addition's 18.
    """
    usual = _meta_registrations.check_inplace_broadcast

    def check(sizes: Any, *others: Any) -> None:
        if all(each.__class__ is int for each in sizes) and all(
            not each or each == sizes for each in others
        ):
            return
        usual(sizes, *others)

    _meta_registrations.check_inplace_broadcast = check


def rebuilt_from_host(tensor: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
    """How pickle makes the tensor again: a copy of the host, put on the device."""
    rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
    host = tensor.detach().cpu()
    return rebuild, (host, tensor.dtype, str(tensor.device), tensor.requires_grad)


def patch_pickling(is_ours: Callable[[torch.Tensor], bool]) -> None:
    """Tensors of the device are pickled by way of the host; torch asks for memory else."""
    original = torch.Tensor._reduce_ex_internal

    def reduce(self: torch.Tensor, proto: int) -> Any:
        return rebuilt_from_host(self) if is_ours(self) else original(self, proto)

    torch.Tensor._reduce_ex_internal = reduce


def patch_printing(is_ours: Callable[[torch.Tensor], bool]) -> None:
    """Tensors of the device are printed as CUDA's are."""
    original = torch._tensor_str._str_intern

    def text(inp: torch.Tensor, *, tensor_contents: str | None = None) -> Any:
        if not hooks.is_functional(inp) or not is_ours(inp):
            return original(inp, tensor_contents=tensor_contents)
        return _text(inp, tensor_contents)

    torch._tensor_str._str_intern = text


def _text(tensor: torch.Tensor, contents: str | None) -> Any:
    host = tensor.detach().cpu()
    suffixes = [f"device='{tensor.device}'"]
    plain = (torch.get_default_dtype(), torch.int64, torch.bool)
    if host.numel() == 0 and host.dim() != 1:
        suffixes.append(f"size={tuple(host.shape)}")
    if host.dtype not in plain or (host.numel() == 0 and host.dtype != plain[0]):
        suffixes.append(f"dtype={host.dtype}")
    if contents is None:
        contents = torch._tensor_str._tensor_str(host, len("tensor(")) if host.numel() else "[]"
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text = f"tensor({contents}"
    return torch._tensor_str._add_suffixes(text, suffixes, len("tensor("), force_newline=False)


def patch_copying(is_ours: Callable[[torch.Tensor], bool]) -> None:
    """`copy.deepcopy` clones tensors of the device; torch would copy their memory."""
    original = torch.Tensor.__deepcopy__

    def deepcopy(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not is_ours(self) or not self.is_leaf or id(self) in memo:
            return original(self, memo)
        made = self.detach().clone().requires_grad_(self.requires_grad)
        if type(self) is not torch.Tensor:
            made = torch.Tensor._make_subclass(type(self), made, self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        return made

    torch.Tensor.__deepcopy__ = deepcopy


def patch_swaps() -> None:
    """Modules take another type while a graph holds their parameters.

    Torch refuses to swap such tensors; where they are of one kind, what they hold is exchanged,
    which is what torch does with modules unless it is told to swap.
    """
    usual = torch.utils.swap_tensors

    def swap(t1: torch.Tensor, t2: torch.Tensor) -> None:
        try:
            usual(t1, t2)
        except RuntimeError:
            if not torch._has_compatible_shallow_copy_type(t1, t2):
                raise
            held, t1.data = t1.data, t2.data
            t2.data = held

    torch.utils.swap_tensors = swap


def patch_lazy_modules() -> None:
    """Parameters without sizes stay such where a module is moved; swapped ones would not."""
    lazy = torch.nn.modules.lazy.LazyModuleMixin
    uninitialised = torch.nn.parameter.UninitializedParameter

    def apply(self: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> Any:
        every = self._parameters
        self._parameters = {n: p for n, p in every.items() if not isinstance(p, uninitialised)}
        try:
            made = super(lazy, self)._apply(fn, recurse)
        finally:
            moved, self._parameters = self._parameters, every
        every.update(moved)
        for param in every.values():
            if isinstance(param, uninitialised):
                to = fn(torch.empty(0, dtype=param.data.dtype, device=param.device))
                new = uninitialised(param.requires_grad, device=to.device, dtype=to.dtype)
                torch.utils.swap_tensors(param, new)
        return made

    lazy._apply = apply
