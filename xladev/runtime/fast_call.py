"""A fast call: a program as a function of arrays that runs without Python, for ordinary calls."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xladev.hlo.shape import Shape
from xladev.runtime.buffers.native_accounting import Account, NativeAccounting

FastCall = Callable[..., Any]
"""Takes one array for each parameter, gives a DeviceArray, or a tuple of them.

It gives None, and has changed nothing, if the call is not an ordinary one: then it is for
`Launchable.execute`. Ordinary means: each argument is a NumPy array (of that very class, of dtype
and dims of the parameter, contiguous, aligned as the memory space wants), or a computed array of
the device; the device is open, not lost, and has nothing pending (`Device.clear`); nobody traces
or counts (`instrument.watchers_address`); there is memory; the program does not fail.
"""


@dataclass(frozen=True, slots=True)
class TemporaryAllocation:
    """Memory that each launch needs.

    Attributes:
        nbytes: its size, at least 1.
        label: what it holds, for messages.
    """

    nbytes: int
    label: str


@dataclass(frozen=True, slots=True)
class FastCallSpec:
    """What a fast call is made of; no array in it is dynamic or a token.

    Attributes:
        device: the Device where the program runs; its stream is synchronous.
        clear: `Device.clear`.
        account: where native code counts what it allocates.
        register: makes a accounting part of what the device's allocator counts.
        parameters: shapes with layout; arrays of the device fit if theirs is the same object.
        results: likewise.
        buffers: one for each result.
        scratch: None if the program needs none.
        aliases: (result, parameter, bytes): the result begins as a copy of the argument, and the
            program is given the result's memory for both.
        is_bare: the one result is given as it is; else a tuple of all.
    """

    device: object
    clear: array[int]
    account: Account
    register: Callable[[NativeAccounting], None]
    parameters: tuple[Shape, ...]
    results: tuple[Shape, ...]
    buffers: tuple[TemporaryAllocation, ...]
    scratch: TemporaryAllocation | None
    aliases: tuple[tuple[int, int, int], ...]
    is_bare: bool
