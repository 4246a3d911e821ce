"""Registers the device with torch; `xladev.torch` shows what users call."""

from __future__ import annotations

import torch

import xladev.client
from xladev.compiler.options import CompileOptions
from xladev.errors import DeviceError
from xladev.frontends.torch import adapter
from xladev.frontends.torch.device import hooks, patches, tracing
from xladev.frontends.torch.device.autocast import register_autocast
from xladev.frontends.torch.device.compiled import PLACEMENT
from xladev.frontends.torch.device.composed import register_composed
from xladev.frontends.torch.device.counts import COUNTS, Counts
from xladev.frontends.torch.device.fused import register_fused
from xladev.frontends.torch.device.kernels import register_kernels
from xladev.frontends.torch.device.methods import patch_methods
from xladev.frontends.torch.device.module import module
from xladev.frontends.torch.device.nested import register_nested
from xladev.frontends.torch.device.program import compute
from xladev.frontends.torch.device.record import is_ours
from xladev.frontends.torch.device.sparse import register_sparse
from xladev.frontends.torch.device.tensor import STATE, Inner
from xladev.frontends.torch.device.writes import register_writes
from xladev.frontends.torch.placement import PLACEMENTS

_libraries: list[torch.library.Library] = []


def register(
    name: str = "npu",
    *,
    platform: str | None = None,
    eager: bool = False,
    options: CompileOptions | None = None,
    random_of_host: bool = False,
) -> torch.device:
    """Makes a device of torch whose operators run on a platform of xladev.

    Args:
        name: of torch's device; once for a process.
        platform: platform or device of xladev; None for the one of highest priority.
        eager: each operator runs at once, for debugging; `set_eager` changes it.
        options: for compiling.
        random_of_host: torch's own kernels draw random numbers, so that they are those of the CPU.

    Returns:
        The device; ``model.to(it)`` or ``model.to(name)``.

    Raises:
        UnsupportedError: another version of torch than this is written for.
        DeviceError: no such platform, a device of another name is registered, or autograd has run
            in this process: torch counts devices when it first does.
    """
    adapter.check_version()
    taken = hooks.registered_name()
    if taken is not None and taken != STATE.name:
        raise _taken(name, taken, "another package's")
    if taken is not None and taken != name:
        raise _taken(name, taken, "registered")
    found = xladev.client.devices(platform)
    if taken is not None and STATE.device is not found[0]:
        raise _taken(name, taken, f"registered on {STATE.device.name if STATE.device else ''}")
    STATE.device, STATE.options = found[0], options
    STATE.is_eager, STATE.random_of_host = eager, random_of_host
    if taken is None:
        _set_up(name)
        _check_autograd(name)
    return torch.device(name, 0)


def _taken(name: str, taken: str, what: str) -> DeviceError:
    return DeviceError(
        f"torch cannot get a device {name!r}",
        where="xladev.torch.register",
        why=f"torch has one place for a device from outside, and {taken!r} is {what}",
        hint="register one device, once for a process",
    )


def _set_up(name: str) -> None:
    STATE.name = name
    hooks.set_up(name, module(name))
    library = torch.library.Library("aten", "IMPL")
    register_kernels(library)
    register_writes(library)
    register_fused(library)
    every = torch.library.Library("_", "IMPL")
    register_autocast(library, every)
    register_nested(library, every)
    register_sparse(library)
    primitives = torch.library.Library("prims", "IMPL")
    register_composed(library, primitives)
    _libraries.extend((library, every, primitives))
    patches.patch_pickling(is_ours)
    patches.patch_printing(is_ours)
    patches.patch_copying(is_ours)
    patches.patch_swaps()
    patches.patch_lazy_modules()
    tracing.patch_tracing(is_ours, Inner)
    patches.patch_checks()
    patch_methods(name, library)
    PLACEMENTS[name] = PLACEMENT
    torch.__future__.set_swap_module_params_on_conversion(True)


def _check_autograd(name: str) -> None:
    """Runs autograd once: its engine has queues for devices that it knew when it started."""
    leaf = torch.zeros((), device=name, requires_grad=True)
    try:
        torch.autograd.backward(leaf)
    except RuntimeError as error:
        raise DeviceError(
            f"torch's autograd does not know the device {name!r}",
            where="xladev.torch.register",
            why="torch counts devices when backward first runs, and it has run in this process",
            hint="register the device before the first backward, best behind the imports",
        ) from error
    COUNTS.clear()


def set_eager(is_eager: bool) -> None:
    """Whether each operator runs at once, for debugging; the results are the same."""
    compute()
    STATE.is_eager = is_eager


def step() -> None:
    """Compiles what living tensors need as one program, and runs it; does not wait for it."""
    compute()


def report() -> Counts:
    """What was recorded, compiled and run, and what ran on the host and why; printable."""
    return COUNTS
