"""Children that campaigns are tested with: one with a bug planted, one that dies."""

import os
from types import MappingProxyType
from typing import Any

from xladev.codegen.scalar import elementwise
from xladev.testing import fuzz_task

_SELECT = elementwise.GENERAL_EMITTERS["select"]


def _swapped(b: Any, operation: Any, args: Any) -> Any:
    return _SELECT(b, operation, (args[0], args[2], args[1]))


WITH_BUG = MappingProxyType({**elementwise.GENERAL_EMITTERS, "select": _swapped})
"""Emitters of the CPU whose select takes the other branch."""


def with_bug(message: bytes) -> bytes:
    """The child's function, with that bug."""
    elementwise.GENERAL_EMITTERS = WITH_BUG
    return fuzz_task.run(message)


def dies(message: bytes) -> bytes:
    """Ends the process."""
    os._exit(3)
