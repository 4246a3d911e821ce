"""Tensors of the host as arrays that xladev takes, and results as tensors, without copies."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from xladev.frontends.torch.element_types import DTYPE_OF
from xladev.frontends.torch.layouts import Place
from xladev.runtime.array import DeviceArray

_BITS = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2fnuz: (torch.int8, ml_dtypes.float8_e5m2fnuz),
    torch.float8_e4m3fnuz: (torch.int8, ml_dtypes.float8_e4m3fnuz),
}
"""Types that NumPy has only by ml_dtypes: they cross as integers of their width."""


def as_numpy(tensor: torch.Tensor) -> Any:
    """A view of a tensor's memory; the tensor lies in the host's and needs no gradient."""
    bits = _BITS.get(tensor.dtype)
    if bits is not None:
        return tensor.view(bits[0]).numpy().view(bits[1])
    return tensor.numpy()


def taker(place: Place) -> Callable[[torch.Tensor], Any]:
    """What makes an argument of a tensor that lies as `place` says; copied if it does not.

    The view of a parameter's memory is made once, not in each call. It keeps that memory until the
    parameter is gone, or a call finds it elsewhere.
    """
    if place.is_plain:
        return _keeping(_plain_taker(DTYPE_OF[place.shape.element_type]))
    return _keeping(_permuted_taker(place.order))


def _keeping(take: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """The same, with the last view if that was of the same parameter."""
    last: tuple[Callable[[], Any], int, Any] = _NOTHING

    def forget(reference: object) -> None:
        nonlocal last
        if last[0] is reference:
            last = _NOTHING

    def take_or_keep(tensor: torch.Tensor) -> Any:
        nonlocal last
        parameter, pointer, kept = last  # at once: other threads may call with other parameters
        if parameter() is tensor and tensor.data_ptr() == pointer:
            return kept
        last = _NOTHING
        array = take(tensor)
        if type(tensor) is torch.nn.Parameter and array.ctypes.data == tensor.data_ptr():
            last = weakref.ref(tensor, forget), tensor.data_ptr(), array
        return array

    return take_or_keep


def _no_tensor() -> None:
    """In place of a reference."""


_NOTHING: tuple[Callable[[], Any], int, Any] = (_no_tensor, 0, None)


def _permuted_taker(order: Sequence[int]) -> Callable[[torch.Tensor], Any]:
    def take(tensor: torch.Tensor) -> Any:
        return as_numpy(_resolved(tensor.detach()).permute(order).contiguous())

    return take


def _plain_taker(dtype: torch.dtype) -> Callable[[torch.Tensor], Any]:
    if dtype in _BITS or dtype.is_complex:
        return lambda tensor: as_numpy(_resolved(tensor.detach()).contiguous())

    def take(tensor: torch.Tensor) -> Any:
        detached = tensor.detach()
        if detached.is_neg():
            detached = detached.resolve_neg()
        return detached.contiguous().numpy()

    return take


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Without conjugation and negation that torch has put off."""
    return tensor.resolve_conj().resolve_neg()


def giver(place: Place, *, shares_memory: bool) -> Callable[[DeviceArray], torch.Tensor]:
    """What makes a tensor of a result; over its memory where the host addresses it."""
    dtype = DTYPE_OF[place.shape.element_type]
    whole = _giver(dtype, shares_memory=shares_memory)
    if place.is_plain:
        return whole
    back = place.back
    return lambda result: whole(result).permute(back)


def _giver(dtype: torch.dtype, *, shares_memory: bool) -> Callable[[DeviceArray], torch.Tensor]:
    if dtype in _BITS:
        whole, _ = _BITS[dtype]
        width = np.int16 if whole is torch.int16 else np.int8

        def give_bits(result: DeviceArray) -> torch.Tensor:
            array = result.numpy()
            kept = array if array.flags.writeable else array.copy()
            return torch.from_numpy(kept.view(width)).view(dtype)

        return give_bits
    if shares_memory:
        return torch.from_dlpack
    return lambda result: torch.from_numpy(np.array(result.numpy()))
