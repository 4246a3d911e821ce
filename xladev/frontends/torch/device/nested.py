"""Nested tensors are refused on the device: torch looks for their memory, and there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from xladev.errors import UnsupportedError, XladevError
from xladev.frontends.torch.device import hooks
from xladev.frontends.torch.device.record import is_ours
from xladev.frontends.torch.device.tensor import STATE
from xladev.frontends.torch.errors import refusal

MAKERS = (
    "_nested_tensor_from_tensor_list", "_nested_from_padded", "_nested_tensor_from_mask",
    "_nested_view_from_buffer", "_nested_view_from_buffer_copy", "_nested_view_from_jagged_copy",
    "_nested_from_padded_tensor",
)  # fmt: skip
"""Operators that make one of tensors of the device."""


def register_nested(library: torch.library.Library, every: torch.library.Library) -> None:
    """Refuses to make nested tensors, and every operator on one that torch has made by itself.

    Args:
        library: of ATen.
        every: of all namespaces.
    """
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, hooks.AUTOGRAD)
    full = "aten::_nested_tensor_from_tensor_list"
    library.impl(full, _of_host_parts(hooks.host_kernel(full)), hooks.HOST, with_keyset=True)
    usual = torch._nested_view_from_jagged

    def view_from_jagged(values: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if is_ours(values):  # torch would fail within its own functional form of views
            raise _error("aten._nested_view_from_jagged")
        made: torch.Tensor = usual(values, *args, **kwargs)
        return made

    torch._nested_view_from_jagged = view_from_jagged
    every.fallback(_operator, hooks.NESTED)


def _operator(op: Any, *args: Any, **kwargs: Any) -> Any:
    raise _error(str(op))


def _of_host_parts(usual: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(
        keys: Any, parts: Any, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: Any = None,
    ) -> Any:  # fmt: skip
        if device is not None and torch.device(device).type == STATE.name:
            raise _error("aten._nested_tensor_from_tensor_list")
        return usual(keys, parts, dtype, layout, device, pin_memory)

    return kernel


def _refused(name: str) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise _error(name)

    return kernel


KERNELS: Mapping[str, Callable[..., Any]] = {
    f"aten::{name}": _refused(f"aten.{name}") for name in MAKERS
}
"""In the place of the usual ones: torch calls some of them behind autograd."""


def _error(where: str) -> XladevError:
    return refusal(
        UnsupportedError,
        f"device {STATE.name} has no nested tensors",
        where=where,
        why="the parts of a nested tensor lie in one memory that torch reads by itself; tensors of "
        "the device have none",
        hint="pad the parts to one size (torch.nn.utils.rnn.pad_sequence) and pass a mask, or keep "
        "the nested tensor on the host",
    )
