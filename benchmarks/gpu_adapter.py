"""xladev as a peer of other GPU frameworks: compiles HLO, takes and gives arrays without copies.

On a GPU, arrays go in by DLPack and come out by ``__cuda_array_interface__``. With platform ``cpu``
the emulator computes on NumPy's arrays: a test of this file, not a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xladev
from xladev import client
from xladev.errors import XladevError
from xladev.hlo.proto import read_module
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.plugin import xladev_platforms
from xladev.runtime.array import from_dlpack, put
from xladev.runtime.device import Device
from xladev.runtime.registry import current_registry


class Adapter:
    """Programs on one device.

    Args:
        platform: ``cuda``, or ``cpu`` for the emulator.
    """

    def __init__(self, platform: str) -> None:
        self._name = "cuda" if platform == "cuda" else "cuda_emu"
        self._device = _device(self._name)

    @property
    def version(self) -> str:
        """Of xladev and its device."""
        return f"xladev {xladev.__version__} on {self._device.description.name}"

    def compile(self, text: str, proto: bytes | None) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of arrays of the device; HLO's proto is taken where there is one."""
        module = read_module(proto) if proto else parse_module(text)
        compiled = client.compile(module, self._name)

        def call(arrays: Sequence[Any]) -> list[Any]:
            result = compiled(*[self._taken(a) for a in arrays])
            return _leaves(result)

        return call

    def _taken(self, value: Any) -> Any:
        if self._name == "cuda":
            return from_dlpack(self._device, value)
        return put(self._device, value)

    def sync(self) -> None:
        """Waits for all that was enqueued."""
        self._device.stream.synchronize()


def _device(platform: str) -> Device:
    """The first device; the plugin is taken from these sources where it is not installed."""
    registry = current_registry()
    try:
        return registry.device(platform)
    except XladevError:
        for spec in xladev_platforms():
            registry.register(spec)
        return registry.device(platform)


def gpu_adapter(platform: str) -> Adapter:
    """The adapter that benchmarks name as ``benchmarks.gpu_adapter:gpu_adapter``."""
    return Adapter(platform)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]
