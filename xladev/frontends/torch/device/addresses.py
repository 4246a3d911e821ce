"""Numbers in the place of addresses, by which scripts tell what shares memory.

A write makes a new array, so a tensor of the device lies at no lasting address. Its storage gets a
range of numbers of its own, of as many bytes as it has, and `data_ptr()` is a number in it: equal
for equal places in the same storage, different otherwise. Nothing is to be read there.
"""

from __future__ import annotations

from typing import Any

import torch

from xladev.frontends.torch.device import hooks
from xladev.frontends.torch.device.record import is_ours
from xladev.frontends.torch.device.tensor import STATE

_ADDRESS = "_xladev_address"
"""Set on a storage of the device; torch keeps it as long as a tensor has the storage."""
_ALIGNMENT_BYTES = 4096
_FIRST = 1 << 60
"""None of the host's memory lies there: its addresses have fewer bits."""
_next = [_FIRST]


def address_of(storage: torch.UntypedStorage) -> int:
    """The first of a storage's numbers; 0 of one without bytes, as on the host."""
    nbytes = storage.nbytes()
    if not nbytes:
        return 0
    found: int | None = getattr(storage, _ADDRESS, None)
    if found is None:
        found = _next[0]
        _next[0] += -(-nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        setattr(storage, _ADDRESS, found)
    return found


def patch_addresses() -> None:
    """Tensors and storages of the device have such numbers."""
    usual, usual_of_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr
    usual_same = torch.Tensor.is_set_to

    def data_ptr(self: torch.Tensor) -> int:
        if not is_ours(self) or not hooks.is_functional(self):
            return int(usual(self))
        if not self.numel():
            return 0
        return address_of(self.untyped_storage()) + self.storage_offset() * self.element_size()

    def data_ptr_of_storage(self: torch.UntypedStorage) -> int:
        if self.device.type != STATE.name:
            return int(usual_of_storage(self))
        return address_of(self)

    def is_set_to(self: torch.Tensor, tensor: torch.Tensor) -> Any:
        if not (is_ours(self) and is_ours(tensor)):
            return usual_same(self, tensor)
        return _place(self) == _place(tensor)

    torch.Tensor.data_ptr = data_ptr
    torch.UntypedStorage.data_ptr = data_ptr_of_storage
    torch.Tensor.is_set_to = is_set_to


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return storage._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()
