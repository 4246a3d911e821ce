"""The module ``torch.NAME``, as scripts and torch itself ask it."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any

import torch

from xladev.frontends.torch.device import generator, streams
from xladev.frontends.torch.device.kernels import check_device
from xladev.frontends.torch.device.tensor import STATE, the_device

CURRENT = "allocated_bytes.all.current"
PEAK = "allocated_bytes.all.peak"
RESERVED = "reserved_bytes.all.current"
MOST_RESERVED = "reserved_bytes.all.peak"


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes of the device's memory, under CUDA's names.

    Reserved is what the platform holds; where it does not tell, what is in use.
    """
    stats = the_device().allocator.stats()
    held = stats.nbytes_reserved
    return {
        CURRENT: stats.nbytes_in_use,
        PEAK: stats.peak_nbytes,
        RESERVED: stats.nbytes_in_use if held is None else held,
        MOST_RESERVED: stats.peak_nbytes if held is None else held,
    }


def memory_allocated(device: Any = None) -> int:
    """Bytes in use."""
    return memory_stats()[CURRENT]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use."""
    return memory_stats()[PEAK]


def memory_reserved(device: Any = None) -> int:
    """Bytes that the platform holds."""
    return memory_stats()[RESERVED]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the platform held, as far as it tells."""
    return memory_stats()[MOST_RESERVED]


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Bytes in use, as text."""
    return f"{STATE.name}: {memory_allocated()} bytes in use, {max_memory_allocated()} at most"


def set_device(device: Any) -> None:
    """Accepts the one device.

    Raises:
        DeviceError: another number than 0.
    """
    check_device(torch.device(STATE.name, device) if isinstance(device, int) else device)


def within(device: Any = None) -> Any:
    """A context in which a device is the current one.

    Raises:
        DeviceError: another number than 0.
    """
    set_device(device)
    return nullcontext()


def seed_anew() -> None:
    """Fixes what is drawn by a seed that nobody knows."""
    generator.manual_seed(torch.seed())


def _functions(name: str) -> dict[str, Any]:
    return {
        "is_initialized": lambda: True,
        "is_available": lambda: True,
        "init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        # devices
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "set_device": set_device,
        "device": within,
        "get_device_name": lambda device=None: the_device().name,
        "get_device_properties": lambda device=None: the_device().description,
        # random numbers
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "seed": seed_anew,
        "seed_all": seed_anew,
        "initial_seed": generator.GENERATOR.initial_seed,
        "get_rng_state": generator.state,
        "set_rng_state": generator.set_state,
        "get_rng_state_all": lambda: [generator.state()],
        "set_rng_state_all": lambda states: generator.set_state(states[0]),
        # types
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
        "is_bf16_supported": lambda: True,
        # work
        "synchronize": streams.synchronize,
        "Stream": streams.Stream,
        "Event": streams.Event,
        "stream": streams.stream,
        "set_stream": lambda stream: None,
        "current_stream": streams.Stream,
        "default_stream": streams.Stream,
        # memory
        "memory_stats": memory_stats,
        "memory_allocated": memory_allocated,
        "max_memory_allocated": max_memory_allocated,
        "memory_reserved": memory_reserved,
        "max_memory_reserved": max_memory_reserved,
        "memory_summary": memory_summary,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
    }


def module(name: str) -> ModuleType:
    """The module for a device of this name."""
    made = ModuleType(f"torch.{name}", f"The device {name} of xladev.")
    vars(made).update(_functions(name))
    return made
