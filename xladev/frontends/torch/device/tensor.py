"""Tensors of the device: without storage, each with the node that it stands for."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from xladev.compiler.options import CompileOptions
from xladev.errors import DeviceError
from xladev.frontends.torch.device import hooks
from xladev.frontends.torch.device.node import (
    Handle,
    Layout,
    Node,
    Spec,
    contiguous,
    layout_of,
    spec_of,
)
from xladev.frontends.torch.element_types import type_of
from xladev.frontends.torch.exchange import as_numpy, giver
from xladev.frontends.torch.layouts import Place
from xladev.hlo.shape import array
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.device import Device


@dataclass(slots=True)
class State:
    """The device that is registered.

    Attributes:
        name: such as ``npu``.
        device: xladev's, where arrays are.
        options: for compiling.
        is_eager: whether each operator runs at once.
        random_of_host: whether torch's own kernels draw random numbers.
        recorded: handles of tensors that were not computed when they were made.
    """

    name: str = ""
    device: Device | None = None
    options: CompileOptions | None = None
    is_eager: bool = False
    random_of_host: bool = False
    recorded: list[weakref.ref[Handle]] = field(default_factory=list)


STATE = State()


def the_device() -> Device:
    """Where arrays are.

    Raises:
        DeviceError: none is registered.
    """
    if STATE.device is None:
        raise DeviceError(
            "no device is registered with torch", hint='call xladev.torch.register("npu") first'
        )
    return STATE.device


class Inner(torch.Tensor):  # type: ignore[misc]
    """What is inside a tensor of the device; the user never holds it."""

    handle: Handle
    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return f"<inner tensor {tuple(self.shape)} {self.dtype}>"


_empty = hooks.without_storage


def tensor_of(node: Node, layout: Layout | None = None) -> Inner:
    """A tensor that stands for a node; torch sees the strides of a layout."""
    spec: Spec = node.spec  # type: ignore[assignment]
    made: Any = _empty(spec.shape, spec.dtype)
    if layout is not None:
        made = hooks.strided(made, spec.shape, layout.strides, layout.offset)
    elif 0 in spec.shape:  # torch would take strides of 0
        made = hooks.strided(made, spec.shape, contiguous(spec.shape), 0)
    made.__class__ = Inner
    made.handle = handle_of(node, layout)
    return made


def handle_of(node: Node, layout: Layout | None) -> Handle:
    """What a tensor holds of a node; the node is computed as long as it lives."""
    handle = Handle(node, layout)
    if node.value is None:
        STATE.recorded.append(weakref.ref(handle))
    return handle


def upload(host: torch.Tensor) -> Inner:
    """A tensor of the device with the elements of one of the host, and its order of dimensions."""
    return tensor_of(uploaded(host), None if host.is_contiguous() else _kept(host))


def _kept(host: torch.Tensor) -> Layout | None:
    """What a copy keeps of strides: the order of dimensions, if nothing lies between elements."""
    return layout_of(torch.empty_like(host, device="meta"))


def uploaded(host: torch.Tensor) -> Node:
    """A computed node with the elements of a tensor of the host."""
    spec = spec_of(host)
    type_of(host.dtype)
    plain = host.detach().resolve_conj().resolve_neg().contiguous()
    return Node(spec, value=put(the_device(), as_numpy(plain)))


def tensor_from(value: DeviceArray, spec: Spec) -> torch.Tensor:
    """A tensor of the host with memory of its own."""
    shape = array(type_of(spec.dtype), spec.shape)
    place = Place(shape, tuple(range(shape.rank)))
    given = giver(place, shares_memory=False)(_Read(value))  # type: ignore[arg-type]
    return given.reshape(spec.shape)


class _Read:
    """An array whose NumPy view is a copy that may be written to."""

    def __init__(self, value: DeviceArray) -> None:
        self._value = value

    def numpy(self) -> Any:
        """The copy."""
        return np.array(self._value.numpy())
