"""The functions that the shim calls: everything about a PJRT client that takes Python.

They are called with the interpreter's lock, from any thread. Arguments and results are plain
numbers, bytes and addresses. What they raise becomes a PJRT error (`describe_error`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from xladev.errors import (
    AbsentDeviceError,
    ArgumentError,
    DeviceLostError,
    InterruptionError,
    OptionError,
    OutOfMemoryError,
    PluginError,
    UnsupportedError,
    XladevError,
)
from xladev.frontends.jax.described import Described, described
from xladev.frontends.jax.element_types import TOKEN_NUMBER, type_of
from xladev.frontends.jax.forks import check_device, note_compilation
from xladev.frontends.jax.host_memory import strided_array, writable_array
from xladev.frontends.jax.interpreter_exit import prepare_exit
from xladev.frontends.jax.library import load as load_library
from xladev.frontends.jax.platform_client import PlatformClient
from xladev.frontends.jax.processes import note_states, processes_of
from xladev.frontends.jax.transfers import Receipt, Sent
from xladev.hlo.shape import array as array_shape
from xladev.instrument import interruption, is_interruption
from xladev.runtime.array import DeviceArray, put, to_device
from xladev.runtime.launch.definition_event import DefinitionEvent

if TYPE_CHECKING:
    from xladev.frontends.jax.profiler import ProfilerSession
    from xladev.frontends.jax.program import JaxProgram

_CANCELLED, _INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _UNIMPLEMENTED = 1, 3, 8, 12
_ABORTED, _INTERNAL, _UNAVAILABLE = 10, 13, 14

_CODES: Mapping[type[BaseException], int] = MappingProxyType(
    {
        OutOfMemoryError: _RESOURCE_EXHAUSTED,
        MemoryError: _RESOURCE_EXHAUSTED,
        DeviceLostError: _UNAVAILABLE,
        UnsupportedError: _UNIMPLEMENTED,
        ArgumentError: _INVALID_ARGUMENT,
        OptionError: _INVALID_ARGUMENT,
        AbsentDeviceError: _INVALID_ARGUMENT,
        InterruptionError: _ABORTED,
    }
)


def describe_error(error: BaseException) -> tuple[int, str]:
    """Status code and text of an exception; the shim raises that of a signal's handler again."""
    code = next((c for kind, c in _CODES.items() if isinstance(error, kind)), _INTERNAL)
    if is_interruption(error):
        code = _CANCELLED
    if isinstance(error, XladevError):
        notes = [n for n in getattr(error, "__notes__", ()) if not n.startswith("When it happened")]
        return code, "\n".join([str(error), *notes])
    return code, f"{type(error).__name__}: {error}"


def open_client(
    options: Sequence[tuple[str, str | int]] = (), store: int = 0
) -> tuple[PlatformClient, int]:
    """A client and the address of its record.

    Args:
        options: ``platform``, whose name it is, or that of highest priority if it is empty; and
            ``num_devices``, how many virtual devices are wanted of a platform that has such;
            ``num_nodes`` and ``node_id``, how many processes there are, and which this one is.
            Others are those of other plugins.
        store: address of the shim's store of keys and values, which the processes share; 0: none.
    """
    with suppress(PluginError):  # a host in C may have the library elsewhere, and ends by itself
        prepare_exit()
    given = dict(options)
    count = int(given.get("num_devices", 0))
    opened = PlatformClient(str(given.get("platform", "")), count, processes_of(given, store))
    return opened, opened.address


def update_processes(client: PlatformClient, states: Sequence[tuple[int, int, str]]) -> None:
    """Notes which processes ended: (number, PJRT_ProcessState, message) of each."""
    if client.job is not None:
        note_states(client.job, states)


def memory_stats(client: PlatformClient, index: int) -> tuple[int, int, int, int]:
    """Bytes in use, peak, allocations and limit (0: unknown) of a device."""
    stats = client.device(index).memory_stats()
    limit = stats.nbytes_limit or 0
    return stats.nbytes_in_use, stats.peak_nbytes, stats.allocations, limit


# Programs


def compile(
    client: PlatformClient, code: bytes, form: str, options: bytes
) -> tuple[JaxProgram, int]:
    """A program for devices of a client, and the address of its record."""
    note_compilation()
    from xladev.frontends.jax import compilation

    program = compilation.compile(client, code, form, options)
    return program, program.address


def serialize(program: JaxProgram) -> bytes:
    """A program as bytes, for `load`."""
    from xladev.frontends.jax import client_file

    return client_file.write(program)


def load(client: PlatformClient, data: bytes) -> tuple[JaxProgram, int]:
    """The program that `serialize` wrote, on the devices it was compiled for."""
    from xladev.frontends.jax import client_file

    program = client_file.read(client, data)
    return program, program.address


# Arrays


def view(
    client: PlatformClient, index: int, address: int, number: int, dims: tuple[int, ...],
    owner: object,
) -> DeviceArray | None:  # fmt: skip
    """An array of a device over host memory, kept alive by ``owner``; None for a token."""
    if number == TOKEN_NUMBER:
        return None
    shape = array_shape(type_of(number), dims).with_default_layout()
    host = writable_array(address, shape, owner)
    return put(client.device(index), host, shape, alias=True)


def from_host(
    client: PlatformClient, index: int, address: int, number: int, dims: tuple[int, ...],
    strides: tuple[int, ...],
) -> DeviceArray:  # fmt: skip
    """An array of a device with a copy of host memory; strides in bytes."""
    check_device(client.host_addressable)
    host = strided_array(address, type_of(number), dims, strides)
    return put(client.device(index), host.copy(order="C"))


def to_host(
    array: DeviceArray, address: int, number: int, dims: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    """Copies an array to host memory; strides in bytes."""
    check_device(array.device.description.host_addressable)
    if array.nbytes:
        np.copyto(strided_array(address, type_of(number), dims, strides), array.numpy())


def live_dims(array: DeviceArray) -> tuple[int, ...]:
    """The sizes of an array that is there, those of its dynamic dimensions included."""
    return array.shape


def settle(array: DeviceArray) -> Described:
    """The array, whose sizes a program gave, as one of these sizes; with its address and size."""
    check_device(array.device.description.host_addressable)
    made = put(array.device, array.numpy().copy(order="C"))
    return described(made, with_address=array.device.description.host_addressable)


def copy(array: DeviceArray, client: PlatformClient, index: int) -> Described:
    """The array on a device, with its address and size."""
    check_device(client.host_addressable)
    made = to_device(array, client.device(index)).block_until_ready()
    return described(made, with_address=client.host_addressable)


def promise(client: PlatformClient, key: int) -> None:
    """Notes that `send` or `fail_transfer` will be called for a transfer."""
    client.transfers().promise(client.transfer_name(key))


def send(
    client: PlatformClient, array: DeviceArray, order: tuple[int, ...], process: int, key: int,
    event: int,
) -> None:  # fmt: skip
    """Sends an array to another process; sets the shim's event when it is on its way.

    Args:
        client: of the array's device.
        array: its axes are the dimensions from major to minor.
        order: dimensions from minor to major.
        process: where to.
        key: of the transfer, the same there.
        event: address of the event.
    """
    name = client.transfer_name(key)
    client.transfers().send(array, order, process, name, partial(_set_event, event))


def receive(
    client: PlatformClient, index: int, number: int, dims: tuple[int, ...],
    order: tuple[int, ...], process: int, key: int, event: int,
) -> Receipt:  # fmt: skip
    """Waits for an array of another process; sets the shim's event when it has come or failed.

    Args:
        client: of the device.
        index: of the device that it is for.
        number: PJRT's of the type.
        dims: sizes.
        order: dimensions from minor to major, as they are to lie on the device.
        process: where from.
        key: of the transfer, the same there.
        event: address of the event.
    """
    sent = Sent(process, client.transfer_name(key), type_of(number), dims)
    device = client.device(index)
    return client.transfers().receive(device, sent, order, partial(_set_event, event))


def received(receipt: Receipt) -> Described:
    """The array that has come, on its device, with its address and size."""
    host_addressable = receipt.device.description.host_addressable
    check_device(host_addressable)
    return described(receipt.array(), with_address=host_addressable)


def fail_transfer(client: PlatformClient, key: int, reason: str) -> None:
    """Tells the process that waits for an array that it will not come."""
    client.transfers().fail(client.transfer_name(key), reason)


# Execution


def execute(
    program: JaxProgram, rows: Sequence[Sequence[DeviceArray]], donate: Sequence[int], device: int
) -> tuple[tuple[tuple[Described, ...], ...], tuple[DefinitionEvent, ...]]:
    """Runs a program.

    Args:
        program: what to run.
        rows: for each device its arguments.
        donate: numbers of arguments that end.
        device: number of the first device.

    Returns:
        For each device its results; and the event to `notify` of, if they are not there yet.

    Raises:
        XladevError: the execution failed.
    """
    check_device(program.host_addressable)
    results = program.execute(rows, donate, device)
    arrays = [array for row in results for array in row]
    pending = next((a.event for a in arrays if not a.is_ready()), None)
    if pending is None:
        for array in arrays:
            array.block_until_ready()
    addressable = program.host_addressable
    rows_of_results = tuple(
        tuple(described(a, with_address=addressable) for a in row) for row in results
    )
    return rows_of_results, () if pending is None else (pending,)


def rethrow() -> NoReturn:
    """Raises why a loop of native code was ended in this thread.

    Raises:
        BaseException: a signal's handler raised it, or an `InterruptionError`.
    """
    interruption.rethrow()


def explain(program: JaxProgram, threads: Sequence[int]) -> NoReturn:
    """Raises why native code of several devices failed, in threads with these numbers.

    Raises:
        BaseException: see `rethrow`; or a device did not come to a collective in time.
    """
    program.explain(threads)


def notify(pending: DefinitionEvent, event: int) -> None:
    """Sets the shim's event when ``pending`` is ready; called when the shim has the results."""
    pending.on_ready(lambda error: _set_event(event, error))


def _set_event(event: int, error: XladevError | None) -> None:
    library = load_library()
    if error is None:
        library.xladev_event_set(event, 0, None, 0)
        return
    code, text = describe_error(error)
    data = text.encode()
    library.xladev_event_set(event, code, data, len(data))


# Profiles


def start_profile(options: bytes) -> ProfilerSession:
    """Begins to record, for a client's profiler; options are a serialized ProfileOptions."""
    from xladev.frontends.jax.profiler import ProfilerSession

    return ProfilerSession(options)


def stop_profile(session: ProfilerSession) -> bytes:
    """Ends that; a serialized XSpace."""
    return session.stop()


def name_thread(device: str) -> None:
    """Names the calling thread, which runs programs on a device, after that."""
    threading.current_thread().name = f"worker of {device}"
