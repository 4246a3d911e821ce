"""DeviceArray: a value on a device, that may not be computed yet, and how the host reads it."""

from __future__ import annotations

import threading
import weakref
from math import prod
from typing import Any

import numpy as np

from xladev.errors import ArgumentError, DeviceLostError, XladevError
from xladev.hlo.physical import HostArray, physical_nbytes, unpack
from xladev.hlo.shape import Shape, interned
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.transfer import (
    SIZE_SHAPE,
    check_fits,
    download,
    host_array,
    live_part,
    shape_of,
    upload,
    upload_sizes,
    view,
    wrap,
)
from xladev.runtime.device import Device
from xladev.runtime.launch.definition_event import DEFINED, DefinitionEvent
from xladev.runtime.launch.launch_error import located
from xladev.runtime.launch.turn import end_turn
from xladev.runtime.memory import HostBytes
from xladev.runtime.stream import finish

_DLPACK_CPU = (1, 0)
_DLPACK_CUDA = 2
_donation = threading.RLock()  # within it, garbage may be collected that ends arrays


class _View:
    """A read-only window on a buffer: every NumPy array made from it keeps it alive."""

    __slots__ = ("__array_interface__", "__weakref__", "_data", "_kept")

    def __init__(self, kept: object, data: HostBytes) -> None:
        self._kept = kept
        self._data = data
        self.__array_interface__ = {
            "shape": data.shape,
            "typestr": "|u1",
            "data": (data.__array_interface__["data"][0], True),
            "version": 3,
        }


class DeviceArray:
    """An array on a device. Immutable, asynchronous, thread-safe.

    Reading it (`numpy`, `__array__`, `__dlpack__`, `block_until_ready`) waits for the execution
    that computes it and raises its error.

    Attributes:
        device: where it lives.
        hlo_shape: its HLO shape with device layout; dims are bounds where dynamic.
        event: ready when it is computed.
    """

    __slots__ = ("__weakref__", "_buffer", "_sizes", "_view", "_why_gone", "device", "event",
                 "hlo_shape")  # fmt: skip

    def __init__(
        self,
        device: Device,
        hlo_shape: Shape,
        buffer: Buffer | None,
        event: DefinitionEvent,
        sizes: tuple[Buffer, ...] = (),
    ) -> None:
        self.device = device
        self.hlo_shape = hlo_shape
        self.event = event
        self._buffer = buffer
        self._sizes = sizes
        self._view: weakref.ref[_View | HostArray] | None = None
        self._why_gone = ""

    # What it is

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements on the host."""
        return self.hlo_shape.element_type.np

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions; waits for the value where one is dynamic."""
        if not self._sizes:
            return self.hlo_shape.dims
        left = iter(self._read_sizes())
        flags = self.hlo_shape.dynamic
        return tuple(
            next(left) if flag else size
            for flag, size in zip(flags, self.hlo_shape.dims, strict=True)
        )

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.hlo_shape.rank

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes on the device, padding included."""
        return physical_nbytes(self.hlo_shape)

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted else "ready" if self.is_ready() else "pending"
        return (
            f"<DeviceArray {self.hlo_shape.to_string(layout=False)} on {self.device.name}, {state}>"
        )

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    # When it is there

    def is_ready(self) -> bool:
        """True if the value is there or failed; never blocks."""
        return self.event.is_ready()

    def block_until_ready(self, timeout_s: float | None = None) -> DeviceArray:
        """Waits for the value and returns this array.

        Raises:
            XladevError: the execution, or one it depends on, failed.
            ArgumentError: the array was deleted or donated.
        """
        self.check_live()
        self.event.check(timeout_s)
        return self

    @property
    def is_deleted(self) -> bool:
        """True after `delete` or donation."""
        return bool(self._why_gone)

    def delete(self) -> None:
        """Gives the memory back, as soon as pending work allows."""
        self.end("it was deleted")
        self.device.allocator.give_back()

    def end(self, why: str) -> None:
        """Makes every later use an error, for donation.

        Args:
            why: one clause for that error, such as ``it was donated to jit_step``.

        Raises:
            ArgumentError: the array was deleted or donated before.
        """
        with _donation:
            if self._why_gone:
                raise self._gone()
            self._why_gone = why
            self._buffer, self._sizes = None, ()

    @property
    def is_writable(self) -> bool:
        """True if its memory may be reused once it is donated: no NumPy array shows it."""
        host = self.host_owner
        return not self.is_shown and (not isinstance(host, np.ndarray) or host.flags.writeable)

    @property
    def is_shown(self) -> bool:
        """True if a NumPy array that was made without a copy is still in use."""
        return self._view is not None and self._view() is not None

    @property
    def host_owner(self) -> object:
        """The host array whose memory this is; None if it was allocated."""
        return None if self._buffer is None else self._buffer.host_owner

    def with_event(self, event: DefinitionEvent) -> DeviceArray:
        """The same value, ready when ``event`` is."""
        return DeviceArray(self.device, self.hlo_shape, self._buffer, event, self._sizes)

    def __copy__(self) -> DeviceArray:
        """An array with memory of its own: either may be donated while the other is read."""
        return put(self.device, self.numpy(), self.hlo_shape, label="copy")

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.__copy__()

    # What it holds

    @property
    def buffer(self) -> Buffer | None:
        """Its memory, computed or not; None if its execution failed without launching.

        Raises:
            ArgumentError: the array was deleted or donated.
            DeviceLostError: a reset of the device took the memory away.
        """
        self.check_live()
        return self._buffer

    @property
    def size_buffers(self) -> tuple[Buffer, ...]:
        """One s32 buffer for each dynamic dimension."""
        return self._sizes

    def numpy(self) -> HostArray:
        """The value as a NumPy array; read-only and without a copy where the host can address it.

        Returns:
            An array of `shape` and `dtype`: the live part where dimensions are dynamic.

        Raises:
            XladevError: the execution, or one it depends on, failed.
            ArgumentError: the array was deleted or donated.
        """
        buffer = self._buffer
        value = None if buffer is None else buffer.show(self)
        return self._read() if value is None else value

    def _read(self) -> HostArray:
        """The value by way of Python, whatever kind of memory it is in."""
        buffer = self._ready_buffer()
        data = view(self.device, buffer.memory, self.hlo_shape)
        if data is None:
            value = download(self.device, buffer.memory, self.hlo_shape)
            self.check_live()  # donated meanwhile, it may have been overwritten
        else:
            value = unpack(self._shown(buffer, data), self.hlo_shape)
        return live_part(value, self.hlo_shape, self._read_sizes()) if self._sizes else value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        value = self.numpy()
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(f"{value.dtype} to {dtype} needs a copy")
            return value.astype(dtype)
        return value.copy() if copy else value

    def item(self) -> Any:
        """The one element as a Python scalar; a ValueError if there are more."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, ordinal) as DLPack numbers them; the host where only copies are offered."""
        kind = self.device.description.dlpack_device_type
        return _DLPACK_CPU if kind is None else (kind, self.device.ordinal)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule; the value is complete, so ``stream`` needs no synchronisation.

        Raises:
            BufferError: DLPack has no such dtype, or the consumer wants another device.
            XladevError: the execution failed.
        """
        own = self.__dlpack_device__()
        if dl_device not in (None, own, _DLPACK_CPU):
            raise BufferError(f"{self!r} cannot be exported to DLPack device {dl_device}")
        if own != _DLPACK_CPU and dl_device in (None, own) and not copy:
            return self._device_capsule()
        return _host_capsule(self.numpy(), max_version, copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of CUDA's array interface; the value is complete, so no stream is named.

        Raises:
            AttributeError: the memory is not CUDA's, or NumPy has no such dtype.
            XladevError: the execution failed.
        """
        dtype = self.hlo_shape.element_type.np
        if self.device.description.dlpack_device_type != _DLPACK_CUDA or dtype.kind == "V":
            raise AttributeError(f"{self!r} has no CUDA array interface")
        buffer = self._ready_buffer()
        with self.device.call("Executor.device_pointer"):
            address = self.device.executor.device_pointer(buffer.memory)
        if address is None:
            raise AttributeError(f"{self!r} has no CUDA array interface")
        return {
            "shape": self.shape,
            "typestr": dtype.str,
            "data": (address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def _device_capsule(self) -> object:
        buffer = self._ready_buffer()
        with self.device.call("Executor.to_dlpack"):
            capsule = self.device.executor.to_dlpack(buffer.memory, self.hlo_shape, buffer)
        if capsule is None:
            raise BufferError(f"{self.device.name} exports no {self.hlo_shape} through DLPack")
        return capsule

    def _shown(self, buffer: Buffer, data: HostBytes) -> HostBytes:
        """``data`` as an array that keeps the buffer alive and tells donation that it is in use."""
        if not data.nbytes:
            return data
        with _donation:
            if self._why_gone:
                raise self._gone()
            shown = self._now_shown(buffer)
            if isinstance(shown, np.ndarray):  # whoever has it may have given it other strides
                shown = _View((buffer, shown), data)
            elif shown is None:
                shown = _View(buffer, data)
                self._view = weakref.ref(shown)
            if self._why_gone:
                raise self._gone()
        return np.asarray(shown)

    def _now_shown(self, buffer: Buffer) -> _View | HostArray | None:
        """What shows the memory, made by native code if it can: that takes no lock."""
        for _ in range(2):  # another thread may show it between the two questions
            shown = None if self._view is None else self._view()
            if shown is None:
                shown = buffer.show(self)
            if shown is not None:
                return shown
        return None

    def _read_sizes(self) -> list[int]:
        self.event.check()
        sizes = [int(download(self.device, s.memory, SIZE_SHAPE)) for s in self._sizes]
        bounds = [d for d, flag in zip(self.hlo_shape.dims, self.hlo_shape.dynamic, strict=True)
                  if flag]  # fmt: skip
        return [min(max(size, 0), bound) for size, bound in zip(sizes, bounds, strict=True)]

    def _ready_buffer(self) -> Buffer:
        self.check_live()
        buffer = self._buffer
        self.event.check()
        if buffer is None:
            raise ArgumentError(f"{self.hlo_shape} has no memory on {self.device.name}")
        return buffer

    def check_live(self) -> None:
        """Raises the error that every use of a deleted, donated or lost array raises.

        Raises:
            ArgumentError: the array was deleted or donated.
            DeviceLostError: a reset of the device took the memory away.
        """
        buffer = self._buffer
        if self._why_gone:
            raise self._gone()
        if buffer is not None and buffer.is_gone:
            raise DeviceLostError(
                f"an array of shape {self.hlo_shape} went with its device {self.device.name}",
                why="the device was lost and reset",
                hint="compute it again",
            )

    def _gone(self) -> ArgumentError:
        return ArgumentError(
            f"an array of shape {self.hlo_shape.to_string(layout=False)} is used again",
            where=self.device.name,
            why=self._why_gone,
        )


def _host_capsule(
    value: HostArray, max_version: tuple[int, int] | None, copy: bool | None
) -> object:
    """A capsule of a host array; consumers before DLPack 1.0 know no read-only arrays."""
    if copy or max_version is None or max_version < (1, 0):
        return value.copy().__dlpack__()
    return value.__dlpack__(max_version=max_version)


def put(
    device: Device,
    value: Any,
    shape: Shape | None = None,
    *,
    alias: bool = False,
    label: str = "array",
) -> DeviceArray:
    """Copies a host array to a device.

    Args:
        device: where to.
        value: anything NumPy takes for an array, of a dtype that HLO has.
        shape: shape and layout wanted; by default the array's own, row-major.
        alias: use the array's memory itself where the device can; it must not be changed then.
        label: what it is, for out-of-memory messages.

    Raises:
        ArgumentError: dtype or dims differ from ``shape``.
        ShapeError: a dtype that HLO has not.
        OutOfMemoryError: the device has no room.
    """
    host = host_array(value, label)
    wanted = shape_of(host) if shape is None else shape
    check_fits(host, wanted, label)
    buffer = wrap(device, host, wanted, label) if alias else None
    if buffer is None:
        buffer = upload(device, host, wanted, label)
    sizes = upload_sizes(device, host, wanted, label) if wanted.is_dynamic else ()
    return DeviceArray(device, wanted, buffer, DEFINED, sizes)


def to_device(array: DeviceArray, device: Device) -> DeviceArray:
    """The array on another device: copied by the platform within it, else through the host.

    Does not wait for the value where the platform copies; the copy fails where the value does.

    Raises:
        ArgumentError: the array was deleted or donated.
        OutOfMemoryError: the device has no room.
        XladevError: the value failed, where it is copied through the host.
    """
    if device is array.device:
        return array
    buffer = array.buffer
    if array.device.platform != device.platform or buffer is None or array.size_buffers:
        return put(device, array.numpy(), array.hlo_shape)
    made = device.allocate(array.hlo_shape, "copy from " + array.device.name)
    nbytes = array.nbytes

    def explained(error: XladevError) -> XladevError:
        device.note_error(error)
        return located(error, f"in the copy of {array.hlo_shape} from {array.device.name}")

    device.join(array.event)
    turn = device.turn
    try:
        if turn is not None:
            turn.take()
        with device.call("Stream.copy"):
            device.stream.copy(made.memory.slice(0, nbytes), buffer.memory.slice(0, nbytes))
            recorded = device.stream.record()
    except BaseException:
        finish(device.stream)
        raise
    finally:
        end_turn()
    event = DefinitionEvent(device.name, recorded, [array.event], explain=explained)
    device.retain(event, (buffer, made))
    array.device.read_elsewhere(buffer.memory, event)
    return DeviceArray(device, array.hlo_shape, made, event)


def from_dlpack(device: Device, producer: Any) -> DeviceArray:
    """An array over the memory of an object with ``__dlpack__``; copied if it lives elsewhere.

    Raises:
        XladevError: the platform cannot take it.
        BufferError: the producer cannot be read by the host either.
    """
    kind = device.description.dlpack_device_type
    if kind is not None and tuple(producer.__dlpack_device__()) == (kind, device.ordinal):
        with device.call("Executor.from_dlpack"):
            taken = device.executor.from_dlpack(producer)
        if taken is not None:
            memory, shape = taken
            buffer = device.allocator.adopt(memory, "dlpack")
            return DeviceArray(device, interned(shape.with_default_layout()), buffer, DEFINED)
    return put(device, np.from_dlpack(producer))
