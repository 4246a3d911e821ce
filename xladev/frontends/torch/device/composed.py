"""Operators that torch makes of views of memory; here they are made of views that can be undone.

A wrapper of a tensor cannot be written to through `as_strided` of a view, and takes no view that is
not ATen's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _prims

from xladev.frontends.torch.device import hooks


def register_composed(library: torch.library.Library, primitives: torch.library.Library) -> None:
    """Gives torch these operators for tensors of the device.

    Args:
        library: of ATen.
        primitives: of `torch._prims`.
    """
    library.impl("aten::fill_diagonal_", fill_diagonal_, hooks.AUTOGRAD)
    for name in _prims.__all__:
        primitive: Any = getattr(_prims, name, None)
        if getattr(primitive, "return_type", None) is _prims.RETURN_TYPE.VIEW:
            primitives.impl(name, primitive.impl_aten, hooks.AUTOGRAD)


def fill_diagonal_(tensor: torch.Tensor, value: float, wrap: bool = False) -> torch.Tensor:
    """Puts a number in the diagonal, and with ``wrap`` in those that follow it in a tall matrix.

    Where a tensor of which elements do not follow one another has a third diagonal, torch's form of
    it stands: that writes behind the last column, to whatever is there.

    Raises:
        RuntimeError: fewer than two dimensions, or more of different sizes.
    """
    sizes = tensor.shape
    height, width = sizes[:2] if len(sizes) > 1 else (0, 0)
    is_wrapped = wrap and len(sizes) == 2 and height > width + 1
    is_strange = len(sizes) < 2 or (len(sizes) > 2 and len(set(sizes)) > 1)
    if is_strange or (is_wrapped and height > 2 * width + 1 and not tensor.is_contiguous()):
        made: torch.Tensor = torch.ops.aten.fill_diagonal_.default.decompose(tensor, value, wrap)
        return made
    if is_wrapped and tensor.is_contiguous():
        tensor.view(-1)[:: width + 1].fill_(value)
        return tensor
    _diagonal(tensor).fill_(value)
    if is_wrapped:
        _diagonal(tensor[width + 1 :]).fill_(value)
    return tensor


def _diagonal(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the elements whose indices are all equal."""
    while tensor.dim() > 1:
        tensor = tensor.diagonal(0, 0, 1)
    return tensor
