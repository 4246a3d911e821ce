"""The module ``torch.NAME``, as scripts and torch itself ask it."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any

import torch

from xladev.frontends.torch.device import generator
from xladev.frontends.torch.device.kernels import check_device
from xladev.frontends.torch.device.program import compute
from xladev.frontends.torch.device.tensor import STATE, the_device


def synchronize(device: Any = None) -> None:
    """Computes what living tensors need and waits until it is there."""
    compute()
    the_device().synchronize()


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes of the device's memory, under CUDA's names."""
    stats = the_device().allocator.stats()
    return {
        "allocated_bytes.all.current": stats.nbytes_in_use,
        "allocated_bytes.all.peak": stats.peak_nbytes,
    }


def module(name: str) -> ModuleType:
    """The module for a device of this name."""
    made: Any = ModuleType(f"torch.{name}", f"The device {name} of xladev.")
    made.is_initialized = lambda: True
    made.is_available = lambda: True
    made.init = lambda: None
    made.current_device = lambda: 0
    made.device_count = lambda: 1
    made._is_in_bad_fork = lambda: False
    made.manual_seed = generator.manual_seed
    made.manual_seed_all = generator.manual_seed
    made.seed = lambda: generator.manual_seed(torch.seed())
    made.seed_all = made.seed
    made.initial_seed = generator.GENERATOR.initial_seed
    made.get_rng_state = generator.state
    made.set_rng_state = generator.set_state
    made.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    made.synchronize = synchronize
    made.memory_stats = memory_stats
    made.memory_allocated = lambda device=None: memory_stats()["allocated_bytes.all.current"]
    made.max_memory_allocated = lambda device=None: memory_stats()["allocated_bytes.all.peak"]
    made.empty_cache = lambda: None
    made.set_device = check_device
    made.device = lambda device=None: nullcontext()
    made.get_device_name = lambda device=None: STATE.device.name if STATE.device else name
    made.get_device_properties = lambda device=None: the_device().description
    found: ModuleType = made
    return found
