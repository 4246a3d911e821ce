"""What torch's own methods do with memory, for tensors of the device: they would find none.

`hooks` names torch's private parts; this file puts others in the place of methods and functions
that users call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xladev.frontends.torch.device import generator, streams
from xladev.frontends.torch.device.addresses import patch_addresses
from xladev.frontends.torch.device.donation import SHOWN
from xladev.frontends.torch.device.kernels import check_device
from xladev.frontends.torch.device.module import (
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
)
from xladev.frontends.torch.device.record import is_ours, value_of
from xladev.frontends.torch.device.tensor import STATE, the_device


def patch_methods(name: str, library: torch.library.Library) -> None:
    """All of this file.

    Args:
        name: of the device.
        library: of ATen.
    """
    _patch_reading()
    patch_addresses()
    _patch_loading(name)
    _patch_generators(name)
    _patch_accelerator()
    _patch_streams()
    library.impl("aten::_pin_memory", _pin_memory, "CPU")


# Arrays of the host


def _patch_reading() -> None:
    usual = torch.Tensor.numpy
    usual_place, usual_capsule = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__

    def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
        if force or not _is_readable(self):
            return usual(self, force=force)
        if self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()."
            )
        return value_of(self).numpy()

    def dlpack_device(self: torch.Tensor) -> Any:
        return value_of(self).__dlpack_device__() if is_ours(self) else usual_place(self)

    def dlpack(self: torch.Tensor, **kwargs: Any) -> Any:
        if not is_ours(self):
            return usual_capsule(self, **kwargs)
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        value = value_of(self)
        SHOWN.add(value)
        return value.__dlpack__(**kwargs)

    torch.Tensor.numpy = numpy
    torch.Tensor.__dlpack_device__ = dlpack_device
    torch.Tensor.__dlpack__ = dlpack


def _is_readable(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the device's and the host addresses its memory."""
    return is_ours(tensor) and bool(the_device().description.host_addressable)


def _pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """A copy in memory of the host; the device takes what it needs from any."""
    return tensor.clone()


# Files: `torch.load(file, map_location=NAME)`

_TO = "_xladev_device"
"""Set on a storage of the host whose tensors are wanted on the device."""


def _marked(storage: torch.UntypedStorage, device: Any) -> torch.UntypedStorage:
    """A storage of the host whose tensors are made on the device."""
    check_device(device)
    made = torch.UntypedStorage._new_with_weak_ptr(storage._weak_ref())
    setattr(made, _TO, {})
    return made


def _patch_loading(name: str) -> None:
    storage_type = torch.UntypedStorage
    usual_to, usual_rebuild = storage_type.to, torch._utils._rebuild_tensor

    def placed(storage: Any, location: str) -> Any:
        return _marked(storage, location) if location.partition(":")[0] == name else None

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        if torch.device(device).type == name and self.device.type == "cpu":
            return _marked(self, device)
        return usual_to(self, device=device, non_blocking=non_blocking)

    def rebuild(storage: Any, offset: int, size: Any, stride: Any) -> torch.Tensor:
        made: torch.Tensor = usual_rebuild(storage, offset, size, stride)
        known = getattr(storage._untyped_storage, _TO, None)
        if known is None:
            return made
        key = (made.dtype, offset, tuple(size), tuple(stride))
        if key not in known:
            known[key] = made.to(name)
        found: torch.Tensor = known[key].detach()
        return found

    def there(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        return _marked(self, name if device is None else device)

    torch.serialization.register_package(5, lambda _: None, placed)
    storage_type.to = to
    setattr(storage_type, name, there)
    torch._utils._rebuild_tensor = rebuild


# Generators


class _Generators(type(torch._C.Generator)):  # type: ignore[misc]
    """`torch.Generator` is one class for the host's and the device's."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, torch._C.Generator)


def _patch_generators(name: str) -> None:
    class Generator(torch._C.Generator, metaclass=_Generators):  # type: ignore[misc]
        __doc__ = torch._C.Generator.__doc__

        def __new__(cls, device: Any = "cpu") -> Any:
            if torch.device(device).type != name:
                return torch._C.Generator(device)
            check_device(device)
            return generator.new(torch.device(name, 0))

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    torch.Generator = Generator


# `torch.accelerator`


def _patch_accelerator() -> None:
    found = torch.accelerator

    def put(name: str, ours: Callable[..., Any]) -> None:
        usual = getattr(found, name)

        def function(*args: Any, **kwargs: Any) -> Any:
            current = found.current_accelerator()
            is_the_device = current is not None and current.type == STATE.name
            return (ours if is_the_device else usual)(*args, **kwargs)

        setattr(found, name, function)

    put("synchronize", streams.synchronize)
    put("empty_cache", lambda: None)
    put("memory_stats", memory_stats)
    put("memory_allocated", memory_allocated)
    put("memory_reserved", memory_reserved)
    put("max_memory_allocated", max_memory_allocated)
    put("max_memory_reserved", max_memory_reserved)


def _patch_streams() -> None:
    usual = torch.Tensor.record_stream

    def record_stream(self: torch.Tensor, stream: Any) -> None:
        if not is_ours(self):  # memory of the device is freed when its last program is done
            usual(self, stream)

    torch.Tensor.record_stream = record_stream
