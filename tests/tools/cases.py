"""StableHLO's cases: modules with inputs, expected results, and how strictly each is checked."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from xladev.client import compile as compile_for
from xladev.hlo.ir import HloModule
from xladev.hlo.load import load
from xladev.testing.comparison import CHECKS, difference

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One case: a folder with module, inputs and expected results."""

    folder: Path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.folder / "case.json").read_text())
        return facts

    def module(self, suffix: str = "pb") -> HloModule:
        """The module, from its proto or its text (suffix ``hlo``)."""
        return load(self.folder / f"module.{suffix}")

    def inputs(self) -> list[Array]:
        """The arguments."""
        return self._arrays("inputs")

    def expected(self) -> list[Array]:
        """The results wanted."""
        return self._arrays("expected")

    def _arrays(self, role: str) -> list[Array]:
        return [
            _read(self.folder / f"{role}_{i}.bin", fact["dtype"], fact["shape"])
            for i, fact in enumerate(self._facts[role])
        ]

    def problem(self, platform: str, suffix: str = "pb") -> str:
        """What is wrong with the case's results on a platform; empty if nothing is.

        Raises:
            XladevError: the module cannot be read, compiled or run.
        """
        executable = compile_for(self.module(suffix), platform)
        result = executable(*self.inputs())
        results = result if isinstance(result, tuple) else (result,)
        wanted, checks = self.expected(), self._facts["checks"]
        if len(results) != len(wanted):
            return f"{len(results)} results, want {len(wanted)}"
        problems = [
            difference(CHECKS[check["kind"]], np.asarray(got), want)
            for got, want, check in zip(results, wanted, checks, strict=True)
        ]
        return "; ".join(f"result {i}: {p}" for i, p in enumerate(problems) if p)


def _read(path: Path, dtype: str, shape: list[int]) -> Array:
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    return np.frombuffer(path.read_bytes(), kind).reshape(shape)
