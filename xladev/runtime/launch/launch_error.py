"""What an error of a launch says: which program and which kernel, whenever it comes to light.

A kernel that fails on an asynchronous device is noticed at the next event, which knows no kernels:
the program's are named then, and how to find out which of them it was.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence

from xladev.compiler.isolation import as_error
from xladev.errors import ExecutionError, XladevError

BLOCKING = "XLADEV_LAUNCH_BLOCKING"
_SHOWN = 4


def waits_for_each(environment: Mapping[str, str] | None = None) -> bool:
    """True if the host waits after each kernel, so that a failure is known to be its own."""
    found = os.environ if environment is None else environment
    return found.get(BLOCKING, "") not in ("", "0")


def launch_error(raised: BaseException, device: str, function: str, program: str) -> XladevError:
    """The error for what a function of the plugin raised while a program was launched.

    Args:
        raised: an error of the XladevError tree keeps its type; anything else but a MemoryError
            becomes an ExecutionError.
        device: name of the device.
        function: of the contract.
        program: name of the program.
    """
    error = as_error(raised, device, function)
    if isinstance(raised, XladevError | MemoryError):
        return error
    made = ExecutionError(
        f"execution of {program} failed",
        where=error.where,
        why=f"{error.what}: {error.why}",
        hint=error.hint,
    )
    made.__cause__ = raised
    return made


def located(error: XladevError, place: str) -> XladevError:
    """The error with ``place`` added to where it happened; a copy, as plugins may keep theirs."""
    if place in (error.where or ""):
        return error
    made = copy.copy(error)
    made.__cause__, made.__traceback__ = error.__cause__, error.__traceback__
    made.where = f"{error.where}, {place}" if error.where else place
    return made


def in_kernel(error: XladevError, kernel: str, program: str) -> XladevError:
    """The error of a launch that one kernel is known to have failed in."""
    return located(error, f"in kernel {kernel} of program {program}")


def in_program(error: XladevError, program: str, kernels: Sequence[str]) -> XladevError:
    """The error that an event told of a launch: any of its kernels may have failed.

    Args:
        error: of the event.
        program: name of the program.
        kernels: names of its kernels; none if they are not known.
    """
    if f"of program {program}" in (error.where or ""):
        return error
    if len(kernels) == 1:
        return in_kernel(error, kernels[0], program)
    if not kernels:
        return located(error, f"in program {program}")
    more = f" and {len(kernels) - _SHOWN} more" if len(kernels) > _SHOWN else ""
    names = ", ".join(kernels[:_SHOWN]) + more
    made = located(error, f"in program {program}, in one of its kernels: {names}")
    if made.hint is None or made.hint == type(error).advice:
        made.hint = f"{BLOCKING}=1 waits after each kernel, and so names the one that failed"
    return made
