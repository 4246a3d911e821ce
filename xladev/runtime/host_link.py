"""The link between a device and the host, measured once where its vendor states none.

Placement among named devices weighs what transfers take. A link is measured when a program first
names devices of its kind, and kept in the cache; without a cache, for the process.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from xladev.compiler.cache.store import Store, entry_key
from xladev.compiler.description import HOST_LINK, Link
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.kept_rates import kept_rates
from xladev.errors import ArgumentError, XladevError
from xladev.hlo.physical import HostArray
from xladev.instrument import decision
from xladev.runtime.array import put
from xladev.runtime.device import Device

Clock = Callable[[], float]
"""Gives seconds."""

_SIZES = (1 << 14, 1 << 22)
"""Bytes of the copies: their difference is bandwidth, what is left of the smaller one latency."""
_ROUNDS = 5

_log = logging.getLogger(__name__)
_of_process: dict[str, Link] = {}


def measure_host_link(device: Device, clock: Clock = time.perf_counter) -> Link:
    """The way from the host to a device, half of there and back; some milliseconds.

    Args:
        device: which.
        clock: tells the time.

    Raises:
        XladevError: the device cannot copy.
    """
    times = []
    for nbytes in _SIZES:
        value = np.zeros(nbytes, np.uint8)
        put(device, value).numpy()
        times.append(min(_there_and_back(device, value, clock) for _ in range(_ROUNDS)) / 2)
    each = max(times[1] - times[0], 1e-12) / (_SIZES[1] - _SIZES[0])
    return Link(1 / each, max(0.0, times[0] - each * _SIZES[0]))


def _there_and_back(device: Device, value: HostArray, clock: Clock) -> float:
    begin = clock()
    put(device, value).block_until_ready().numpy()
    return clock() - begin


def with_host_link(
    target: CompileTarget,
    find: Callable[[str], Device],
    store: Store | None,
    clock: Clock = time.perf_counter,
) -> CompileTarget:
    """The target, described with its link to the host.

    As it is where its memory is the host's, where its vendor states that link or its bandwidth,
    where `xladev calibrate` measured it, or where the device cannot be asked.

    Args:
        target: what a program is compiled for.
        find: opens a device of that name.
        store: keeps what is measured; None: the process does.
        clock: tells the time.
    """
    described = target.description
    is_known = HOST_LINK in described.links or described.transfer_bandwidth is not None
    if described.host_addressable or is_known or kept_rates(target) is not None:
        return target
    key = entry_key("host link", target.name.partition(":")[0], described.target, described.name)
    link = _of_process.get(key) or _kept(store, key)
    if link is None:
        try:
            link = measure_host_link(find(target.name), clock)
        except XladevError as error:
            _log.info("the link to %s is not measured: %s", target.name, error)
            return target
        decision("placement", target.name, f"its link to the host was measured: {link}")
        if store is not None:
            store.write(key, json.dumps([link.bandwidth, link.latency_s]).encode())
    _of_process[key] = link
    links = {**described.links, HOST_LINK: link}
    return replace(target, description=replace(described, links=links))


def _kept(store: Store | None, key: str) -> Link | None:
    found = None if store is None else store.read(key)
    if found is None:
        return None
    try:
        bandwidth, latency_s = json.loads(found)
        return Link(float(bandwidth), float(latency_s))
    except (ValueError, TypeError, ArgumentError):
        return None
