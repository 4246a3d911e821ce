"""The exported programs: modules with inputs and expected results in one npz each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from xladev.client import CompiledModule
from xladev.hlo.ir import HloModule
from xladev.hlo.load import load
from xladev.testing.comparison import DEFAULT_RTOL, difference, expect_relative

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ExportedProgram:
    """One program: NAME.pb, NAME.hlo, NAME.npz and, except for PyTorch's, NAME.json."""

    folder: Path
    name: str

    @cached_property
    def _facts(self) -> dict[str, Any]:
        path = self.folder / f"{self.name}.json"
        facts: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return facts

    def module(self, suffix: str = "pb") -> HloModule:
        """The module, from its proto (``pb``) or its text (``hlo``)."""
        return load(self.folder / f"{self.name}.{suffix}")

    def inputs(self) -> list[Array]:
        """The arguments."""
        return self._arrays("in_", "params")

    def expected(self) -> list[Array]:
        """What XLA's CPU gave."""
        return self._arrays("out_", "results")

    def _arrays(self, prefix: str, facts: str) -> list[Array]:
        with np.load(self.folder / f"{self.name}.npz") as stored:
            arrays = [stored[key] for key in sorted(stored) if key.startswith(prefix)]
        kinds = [fact["dtype"] for fact in self._facts.get(facts, [])]
        return [
            array.view(_dtype(kinds[i])) if i < len(kinds) else array
            for i, array in enumerate(arrays)
        ]

    def problem(self, executable: CompiledModule) -> str:
        """What is wrong with the results of the compiled program; empty if nothing is.

        Raises:
            XladevError: it cannot be run.
        """
        result = executable(*self.inputs())
        results = result if isinstance(result, tuple) else (result,)
        return self.problem_of([np.asarray(each) for each in results])

    def problem_of(self, results: Sequence[Array]) -> str:
        """What is wrong with results; empty if nothing is."""
        wanted = self.expected()
        if len(results) != len(wanted):
            return f"{len(results)} results, want {len(wanted)}"
        check = expect_relative(float(self._facts.get("rtol", DEFAULT_RTOL)))
        problems = [difference(check, got, want) for got, want in zip(results, wanted, strict=True)]
        return "; ".join(f"result {i}: {p}" for i, p in enumerate(problems) if p)


def program_names(folder: Path) -> list[str]:
    """The programs in a folder; none where it is not there."""
    return sorted(path.stem for path in folder.glob("*.pb"))


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)
