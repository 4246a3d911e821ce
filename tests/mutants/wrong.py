"""What a mutant written by hand is, and ways of planting one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from xladev.platforms.cpu import library

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class WrongBackend:
    """A backend with one mistake.

    Attributes:
        name: the mistake.
        backend: platform that it is made in.
        plant: makes it, in a process that is thrown away.
        opcodes: one of them must be named by the report.
        cases: patterns of the ids of cases to run, where no opcode tells; one must be named.
    """

    name: str
    backend: str
    plant: Plant
    opcodes: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()


def everywhere(function: Any, wrong: Any) -> Plant:
    """A function replaced under every name by which a module of xladev knows it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for module in [m for n, m in sys.modules.items() if n.startswith("xladev.")]:
            for name, value in list(vars(module).items()):
                if value is function:
                    patch.setattr(module, name, wrong)

    return plant


def method(owner: type, name: str, wrong: Callable[..., Any]) -> Plant:
    """A method replaced; ``wrong`` is given the right one first."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **more: wrong(right, *args, **more))

    return plant


def compiled_anew(plant: Plant) -> Plant:
    """Microkernels of the CPU are kept: those with the mistake go to a table of their own."""

    def planted(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(library.LIBRARY, "_compiled", {})
        patch.setattr(library, "shipped_microkernels", lambda target, level: {})
        plant(patch)

    return planted
