"""Says where each instruction of a program runs: `convolution.3: (convolution): template_npu:0`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping

from xladev.compiler.partition.assignment import Assignment, CompileTarget
from xladev.instrument import logger

_log = logger("placement")
_handler = logging.StreamHandler(sys.stderr)
_handler.setFormatter(logging.Formatter("%(message)s"))


def set_log_device_placement(enabled: bool) -> None:
    """Whether compilations say on stderr where each instruction runs.

    One line per instruction of the program after passes, by the logger ``xladev.placement``. A
    program that the cache keeps is compiled again meanwhile.

    Args:
        enabled: True or False.
    """
    _log.setLevel(logging.INFO if enabled else logging.NOTSET)
    _log.removeHandler(_handler)
    _log.propagate = not enabled
    if enabled:
        _handler.stream = sys.stderr  # tests exchange it
        _log.addHandler(_handler)


def logs_device_placement() -> bool:
    """Whether compilations say so."""
    return _handler in _log.handlers


def log_placement(assignment: Assignment, targets: Mapping[str, CompileTarget]) -> None:
    """Says it of one program, if that is wanted."""
    if logs_device_placement():
        for line in placement_lines(assignment, targets):
            _log.info("%s", line)


def placement_lines(assignment: Assignment, targets: Mapping[str, CompileTarget]) -> Iterator[str]:
    """One line for each instruction that runs by itself, in the order of their computations."""
    for i, device in assignment.devices.items():
        target = targets.get(device)
        shown = device if target is None else target.device_name
        yield f"{i.name}: ({i.opcode}): {shown}"
