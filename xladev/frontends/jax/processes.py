"""The processes of `jax.distributed`: they meet by JAX's key-value store, and exchange devices."""

from __future__ import annotations

import atexit
import ctypes
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xladev import __version__
from xladev.errors import ProcessError
from xladev.frontends.jax.library import load
from xladev.runtime.distributed.environment import MPI, chosen_transport
from xladev.runtime.distributed.job import (
    Job,
    current_job,
    enter_job,
    leave_job,
    timeout_from_environment,
)
from xladev.runtime.distributed.listener import Listener
from xladev.runtime.distributed.meeting import (
    KeyValueStore,
    exchange_by_store,
    local_host,
    split_address,
)
from xladev.runtime.distributed.mpi import MpiTransport, is_installed
from xladev.runtime.distributed.sockets import connect_all
from xladev.runtime.distributed.transport import Transport

START_TIMEOUT_S = 300.0
"""As long as `jax.distributed.initialize` waits."""

_DISCONNECTED, _ERROR = 2, 4
_CAPACITY = 1 << 20

Said = dict[str, Any]
"""What a process tells of one of its devices."""


@dataclass(slots=True)
class Processes:
    """The processes that a client spans.

    Attributes:
        index, count: of this process.
        coordinator: ``host:port`` of JAX's coordinator.
        store: which they share.
        devices: of each process; known once they have met.
    """

    index: int
    count: int
    coordinator: str
    store: KeyValueStore
    devices: list[list[Said]] = field(default_factory=list)


class _JaxStore(KeyValueStore):
    """JAX's store, by the shim's functions."""

    def __init__(self, address: int) -> None:
        self._address = ctypes.c_void_p(address)

    def put(self, key: str, value: bytes) -> None:
        """See `KeyValueStore.put`."""
        name, buffer, size = key.encode(), ctypes.create_string_buffer(_CAPACITY), ctypes.c_size_t()
        code = load().xladev_key_values_put(
            self._address, name, ctypes.c_size_t(len(name)), value, ctypes.c_size_t(len(value)),
            buffer, ctypes.c_size_t(_CAPACITY), ctypes.byref(size),
        )  # fmt: skip
        _checked(code, buffer, size, key)

    def get(self, key: str, timeout_s: float) -> bytes:
        """See `KeyValueStore.get`."""
        name, buffer, size = key.encode(), ctypes.create_string_buffer(_CAPACITY), ctypes.c_size_t()
        code = load().xladev_key_values_get(
            self._address, name, ctypes.c_size_t(len(name)), int(1e3 * timeout_s), buffer,
            ctypes.c_size_t(_CAPACITY), ctypes.byref(size),
        )  # fmt: skip
        return _checked(code, buffer, size, key)


def _checked(code: int, buffer: Any, size: ctypes.c_size_t, key: str) -> bytes:
    data = bytes(buffer.raw[: min(size.value, _CAPACITY)])
    if code or size.value > _CAPACITY:
        raise ProcessError(
            "the processes of jax.distributed could not meet",
            where=f"key {key!r} of its store",
            why=data.decode(errors="replace") if code else f"a value of {size.value} bytes",
            hint="all processes must open the same platform: JAX_PLATFORMS, and the same versions",
        )
    return data


def processes_of(options: Mapping[str, str | int], store: int) -> Processes | None:
    """The processes that the options of a client name; None if there is but one."""
    count = int(options.get("num_nodes", 1))
    if count < 2 or not store:
        return None
    coordinator = str(options.get("coordinator", ""))
    return Processes(int(options.get("node_id", 0)), count, coordinator, _JaxStore(store))


def join(platform: str, devices: list[Said], processes: Processes) -> Job:
    """The job of all processes; they are connected, and know each other's devices.

    Raises:
        ProcessError: a process does not come, or has another version of xladev.
    """
    own = {"version": __version__, "devices": devices, "address": ""}
    name = f"xladev/{platform}/{next_meeting(platform)}"
    known = current_job()
    if known is not None and known.platform == platform:
        said = exchange_by_store(
            processes.store, processes.index, processes.count, own, name, START_TIMEOUT_S
        )
        processes.devices = [row["devices"] for row in said]
        return known
    job = _connected(platform, own, processes, name)
    enter_job(job)
    atexit.register(leave_job)
    return job


_meetings: dict[str, int] = {}


def next_meeting(platform: str) -> int:
    """How often a platform was opened here: JAX may forget its clients and begin anew."""
    _meetings[platform] = number = _meetings.get(platform, -1) + 1
    return number


def meetings(platform: str) -> int:
    """How often processes met for a platform: the same in all of them."""
    return _meetings.get(platform, -1) + 1


def _connected(platform: str, own: Said, processes: Processes, name: str) -> Job:
    transport: Transport
    if chosen_transport(None, is_installed(), has_address=True) == MPI:
        transport = MpiTransport(processes.index, timeout_from_environment(), processes.count)
        said = exchange_by_store(
            processes.store, processes.index, processes.count, own, name, START_TIMEOUT_S
        )
    else:
        transport, said = _by_sockets(own, processes, name)
    processes.devices = [row["devices"] for row in said]
    return Job(transport, [len(row) for row in processes.devices], platform)


def _by_sockets(own: Said, processes: Processes, name: str) -> tuple[Transport, list[Said]]:
    deadline = time.monotonic() + START_TIMEOUT_S
    secret = _shared_secret(processes, name)
    listener = Listener(
        _host(processes.coordinator), 0, secret, processes.index, processes.count, name
    )
    try:
        own["address"] = listener.address
        said = exchange_by_store(
            processes.store, processes.index, processes.count, own, name, START_TIMEOUT_S
        )
        _check_versions(said)
        transport = connect_all(
            listener, [row["address"] for row in said], processes.index, name, secret, deadline,
            timeout_from_environment(),
        )  # fmt: skip
    finally:
        listener.close()
    return transport, said


def _shared_secret(processes: Processes, name: str) -> bytes:
    key = f"{name}/secret"
    if processes.index == 0:
        processes.store.put(key, secrets.token_hex(32).encode())
    return processes.store.get(key, START_TIMEOUT_S)


def _host(coordinator: str) -> str:
    """The address of this machine on the way to the coordinator, unless XLADEV_HOST names one."""
    named = os.environ.get("XLADEV_HOST")
    return named or (local_host(split_address(coordinator)) if coordinator else "127.0.0.1")


def _check_versions(said: Sequence[Said]) -> None:
    for process, row in enumerate(said):
        if row["version"] != __version__:
            raise ProcessError(
                "processes have different versions of xladev",
                where=f"process {process}",
                why=f"it has {row['version']}, this one has {__version__}",
            )


def note_states(job: Job, states: Sequence[tuple[int, int, str]]) -> None:
    """Makes exchanges with processes fail that JAX says have ended."""
    for process, state, message in states:
        if state in (_DISCONNECTED, _ERROR) and process != job.index:
            job.transport.lose(process, message or "JAX says that it has disconnected")
