"""Rates that were measured, in the cache: one entry for each kind of device."""

from __future__ import annotations

from xladev.compiler.cache.store import Store, entry_key, store_of_environment
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.rates import DeviceRates
from xladev.errors import FormatError


def kept_rates(device: CompileTarget) -> DeviceRates | None:
    """What `keep_rates` kept for devices of this kind; None if nothing that can be read."""
    store = store_of_environment()
    found = None if store is None else store.read(_key(device))
    if found is None:
        return None
    try:
        return DeviceRates.from_json(found.decode())
    except (FormatError, UnicodeDecodeError):
        return None


def keep_rates(device: CompileTarget, rates: DeviceRates, store: Store) -> bool:
    """Keeps rates for all devices of this kind; False if the cache has no room."""
    return store.write(_key(device), rates.to_json().encode())


def _key(device: CompileTarget) -> str:
    platform = device.name.partition(":")[0]
    return entry_key("rates", platform, device.description.target, device.description.name)
