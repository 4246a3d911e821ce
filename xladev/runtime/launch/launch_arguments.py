"""What a launch is given: arguments as arrays of its device, and what becomes of donated ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xladev.compiler.signature import Signature
from xladev.errors import ArgumentError
from xladev.hlo.shape import Shape, interned
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.transfer import host_array
from xladev.runtime.device import Device
from xladev.runtime.launch.definition_event import DEFINED, DefinitionEvent

Donated = Collection[int]
"""Indices of arguments that are not needed any more."""


@dataclass(frozen=True, slots=True)
class LaunchArguments:
    """The arguments of one launch.

    Attributes:
        arrays: one array of the device for each parameter leaf.
        donated: arrays of the caller's that end with the launch.
        reusable: parameters whose memory may become that of results.
        ending: why donated arrays end.
    """

    arrays: tuple[DeviceArray, ...]
    donated: tuple[DeviceArray, ...] = ()
    reusable: frozenset[int] = frozenset()
    ending: str = ""

    def buffers(self) -> list[Buffer]:
        """The buffers of the leaves, then those of the hidden sizes."""
        leaves = [buffer for array in self.arrays if (buffer := array.buffer) is not None]
        return leaves + [size for array in self.arrays for size in array.size_buffers]

    def events(self) -> tuple[DefinitionEvent, ...]:
        """The arrays' events, each once, without those that are ready and did not fail."""
        events = {id(a.event): a.event for a in self.arrays if a.event is not DEFINED}
        return tuple(event for event in events.values() if not event.is_done)

    def end_donated(self) -> None:
        """Makes every later use of what was donated an error.

        Raises:
            ArgumentError: another thread has deleted or donated it meanwhile.
        """
        for array in self.donated:
            array.end(self.ending)

    def is_free(self, parameter: int) -> bool:
        """True if results may be written where a reusable parameter is; asked when it ended.

        Until then another thread may have read the array without a copy.
        """
        return parameter in self.reusable and not self.arrays[parameter].is_shown


class Parameters:
    """What a program takes, and how arguments become that. Thread-safe.

    Args:
        device: where the program runs.
        signature: what it takes.

    Attributes:
        shapes: of the parameter leaves, with layout; interned.
    """

    def __init__(self, device: Device, signature: Signature) -> None:
        self._device = device
        self._name = signature.name
        self.shapes = tuple(interned(s.with_default_layout()) for s in signature.parameter_leaves)

    def take(
        self, arguments: Sequence[Any], donate: Donated = (), *, alone: bool = True
    ) -> LaunchArguments:
        """The arguments of a launch.

        Args:
            arguments: one for each parameter leaf.
            donate: indices of those that may be reused.
            alone: False if other devices run the program too, and may have been given the same
                host arrays.

        Raises:
            ArgumentError: wrong number, dtype, shape or device of arguments, or a deleted array.
            OutOfMemoryError: no room for a copy.
        """
        if len(arguments) != len(self.shapes):
            raise ArgumentError(
                f"{self._name} takes {len(self.shapes)} arrays, not {len(arguments)}",
                where=f"program {self._name}",
                why=f"it takes {', '.join(s.to_string(layout=False) for s in self.shapes)}",
            )
        arrays = tuple(self._array(i, a, donate) for i, a in enumerate(arguments))
        if donate:
            self._check_donation(arguments, donate)
        for array in arrays:
            array.check_live()
        if not donate:
            return LaunchArguments(arrays)
        return LaunchArguments(
            arrays,
            tuple(arguments[i] for i in set(donate) if isinstance(arguments[i], DeviceArray)),
            frozenset(i for i in donate if _may_be_written(arrays, i, alone)),
            f"it was donated to {self._name}",
        )

    def _array(self, index: int, argument: Any, donate: Donated) -> DeviceArray:
        shape = self.shapes[index]
        label = f"parameter {index} of {self._name}"
        if not shape.is_array:
            return DeviceArray(self._device, shape, self._device.allocate(shape, label), DEFINED)
        if not isinstance(argument, DeviceArray):
            host = host_array(argument, label)
            alias = self._may_alias(host, index, donate)
            return put(self._device, host, shape, alias=alias, label=label)
        if argument.device is not self._device:
            raise ArgumentError(
                f"{label} lives on {argument.device.name}",
                where=label,
                why=f"the program runs on {self._device.name}",
                hint="copy it with to_device(array, device)",
            )
        if argument.hlo_shape is not shape:
            if argument.hlo_shape != shape:
                return self._converted(argument, shape, label)
            argument.hlo_shape = shape  # by this object a fast call knows it the next time
        return argument

    def _converted(self, argument: DeviceArray, shape: Shape, label: str) -> DeviceArray:
        """The argument in the layout or bounds that the program takes, through the host."""
        argument.check_live()
        argument.event.wait()
        if argument.event.failure() is not None:
            return argument
        return put(self._device, argument.numpy(), shape, label=label)

    def _may_alias(self, host: Any, index: int, donate: Donated) -> bool:
        """True if the caller cannot change the array while it is in use, or has given it away."""
        return index in donate or not host.flags.writeable or self._device.stream.is_synchronous

    def _check_donation(self, arguments: Sequence[Any], donate: Donated) -> None:
        for index in donate:
            if not 0 <= index < len(arguments):
                raise ArgumentError(
                    f"{self._name} has no argument {index} to donate",
                    where=f"program {self._name}",
                    why=f"it takes {len(arguments)}",
                )
            given = arguments[index]
            if isinstance(given, DeviceArray) and sum(a is given for a in arguments) > 1:
                raise ArgumentError(
                    f"argument {index} of {self._name} is donated and passed twice",
                    where=f"program {self._name}",
                    why="what is donated is written; who else holds it would see that",
                )


def _may_be_written(arrays: Sequence[DeviceArray], index: int, alone: bool) -> bool:
    """True if nobody else sees the memory of an array, as far as can be known."""
    if not arrays[index].is_writable:
        return False
    host = arrays[index].host_owner
    if not isinstance(host, np.ndarray):
        return True
    others = (a.host_owner for i, a in enumerate(arrays) if i != index)
    return alone and not any(
        isinstance(other, np.ndarray) and np.may_share_memory(host, other) for other in others
    )
