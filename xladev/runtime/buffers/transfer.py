"""Host arrays to device buffers and back: dtype, bounds, layout, copies or none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from xladev.compiler.isolation import expect
from xladev.errors import ArgumentError
from xladev.hlo import dtype as dt
from xladev.hlo.literal import has_mask
from xladev.hlo.physical import HostArray, is_plain, pack, physical_nbytes, unpack
from xladev.hlo.shape import Shape, array
from xladev.instrument import counter, is_interruption, trace_scope
from xladev.runtime.buffer import Buffer
from xladev.runtime.device import Device, memory_space
from xladev.runtime.memory import DeviceMemory, HostBytes

SIZE_SHAPE = array(dt.S32)
"""Shape of the hidden argument that holds the size of one dynamic dimension."""


_TO_DEVICE, _TO_HOST = "Executor.copy_to_device", "Executor.copy_to_host"


def transfer_scope(what: str, device: Device, nbytes: int) -> AbstractContextManager[None]:
    """Records a copy between host and device, if somebody traces."""
    return trace_scope(what, "transfer", device=device.name, bytes=nbytes)


def shape_of(value: HostArray) -> Shape:
    """The row-major HLO shape of a host array; a ShapeError for a dtype without counterpart."""
    return array(dt.by_numpy(value.dtype), value.shape).with_default_layout()


def host_array(value: Any, what: str) -> HostArray:
    """A value as a host array.

    Args:
        value: anything that NumPy takes for an array of numbers.
        what: what it is, for messages.

    Raises:
        ArgumentError: NumPy makes no array of it, or one of Python objects; or it has a mask.
    """
    if type(value) is not np.ndarray and has_mask(value):
        raise ArgumentError(
            f"{what} is masked",
            where=what,
            why="an array on a device has no mask, and what is masked would count",
            hint="array.filled(number), or array.data if all of it counts; pass the mask as another"
            " argument where the program needs it",
        )
    try:
        made: HostArray = np.asarray(value)
    except Exception as error:
        if is_interruption(error):
            raise
        raise ArgumentError(
            f"{what} is no array", where=what, why=f"NumPy says: {error}"
        ) from error
    if made.dtype == object:
        raise ArgumentError(
            f"{what} is {type(value).__name__}",
            where=what,
            why="arguments are arrays of numbers",
            hint="pass a NumPy array, a device array, or what numpy.asarray takes for numbers; "
            "array.toarray() of a sparse one; what is missing needs a number",
        )
    return made


def check_fits(value: HostArray, shape: Shape, what: str) -> None:
    """Checks that a host array may be passed for an argument of ``shape``.

    Raises:
        ArgumentError: dtype or dims differ (dims may be smaller where dynamic).
    """
    dims_fit = len(value.shape) == shape.rank and all(
        size == bound or (size < bound and shape.is_dynamic_dimension(i))
        for i, (size, bound) in enumerate(zip(value.shape, shape.dims, strict=True))
    )
    if value.dtype != shape.element_type.np or not dims_fit:
        raise ArgumentError(
            f"{what} is {value.dtype}{list(value.shape)}",
            where=what,
            why=f"the program takes {shape.to_string(layout=False)}",
            hint="cast or reshape the array first",
        )


def upload(device: Device, value: HostArray, shape: Shape, label: str) -> Buffer:
    """A buffer with a copy of ``value``, laid out as ``shape`` says, padded to its bounds.

    Raises:
        OutOfMemoryError: the device has no room.
        XladevError: the copy failed.
    """
    data = pack(_padded(value, shape), shape)
    buffer = device.allocate(shape, label)
    if data.nbytes:
        counter("runtime.nbytes_to_device", data.nbytes)
        with transfer_scope("to device", device, data.nbytes), device.call(_TO_DEVICE):
            device.executor.copy_to_device(buffer.memory.slice(0, data.nbytes), data)
    return buffer


def wrap(device: Device, value: HostArray, shape: Shape, label: str) -> Buffer | None:
    """A buffer that is ``value`` itself; None if dims, layout, alignment or platform forbid it."""
    if memory_space(shape):
        return None
    space = device.description.memory_spaces[0]
    if not space.host_addressable or value.shape != shape.dims or not is_plain(shape):
        return None
    if not value.flags.c_contiguous or not value.nbytes:
        return None
    data: HostBytes = value.reshape(-1).view(np.uint8)
    if data.__array_interface__["data"][0] % space.wrap_alignment:
        return None
    with device.call("Executor.wrap_host"):
        memory = device.executor.wrap_host(data)
    if memory is None:
        return None
    expect(memory, DeviceMemory, device.name, "Executor.wrap_host")
    return device.allocator.adopt(memory, label, host_owner=value)


def upload_sizes(device: Device, value: HostArray, shape: Shape, label: str) -> tuple[Buffer, ...]:
    """One s32 buffer for each dynamic dimension of ``shape``, with the size that ``value`` has."""
    sizes = [value.shape[i] for i in range(shape.rank) if shape.is_dynamic_dimension(i)]
    return tuple(
        upload(device, np.asarray(size, np.int32), SIZE_SHAPE, f"{label} size") for size in sizes
    )


def view(device: Device, memory: DeviceMemory, shape: Shape) -> HostBytes | None:
    """The bytes of device memory without a copy; None where the host cannot address it."""
    if not device.description.memory_space(memory.memory_space).host_addressable:
        return None
    with device.call("Executor.host_view"):
        data = device.executor.host_view(memory)
    return None if data is None else data[: physical_nbytes(shape)]


def download(device: Device, memory: DeviceMemory, shape: Shape) -> HostArray:
    """A host array with a copy of device memory, dynamic dimensions at their bounds.

    Raises:
        XladevError: the copy failed.
    """
    data = np.empty(physical_nbytes(shape), np.uint8)
    if data.nbytes:
        counter("runtime.nbytes_to_host", data.nbytes)
        with transfer_scope("to host", device, data.nbytes), device.call(_TO_HOST):
            device.executor.copy_to_host(data, memory.slice(0, data.nbytes))
    return unpack(data, shape)


def live_part(value: HostArray, shape: Shape, sizes: Sequence[int]) -> HostArray:
    """The part of a full-size array within the sizes of its dynamic dimensions."""
    left = iter(sizes)
    return value[
        tuple(
            slice(next(left)) if shape.is_dynamic_dimension(i) else slice(None)
            for i in range(shape.rank)
        )
    ]


def _padded(value: HostArray, shape: Shape) -> HostArray:
    if value.shape == shape.dims:
        return value
    full: np.ndarray[Any, np.dtype[Any]] = np.zeros(shape.dims, value.dtype)
    full[tuple(map(slice, value.shape))] = value
    return full
