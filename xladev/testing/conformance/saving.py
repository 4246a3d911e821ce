"""Saves a failing case as an HLO file with its arrays, and says how to run it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.text import print_module
from xladev.testing.arrays import save_arrays
from xladev.testing.comparison import DEFAULT_RTOL
from xladev.testing.conformance.case import Row
from xladev.testing.conformance.status import Difference
from xladev.testing.noise import leaves


def save_failure(
    folder: Path,
    case_id: str,
    backend: str,
    module: HloModule,
    row: Row,
    wanted: Sequence[Array],
    difference: Difference | None,
) -> str:
    """Writes ``failures/ID.hlo`` and ``.npz`` below a folder; the command that runs them.

    Raises:
        FormatError: they cannot be written.
    """
    place = folder / "failures"
    place.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", case_id)
    program, arrays = place / f"{stem}.hlo", place / f"{stem}.npz"
    program.write_text(print_module(module), "utf-8")
    inputs = [leaf for value in row for leaf in leaves(value)]
    save_arrays(arrays, inputs, wanted)
    words = ["xladev", "run", str(program), "--platform", backend, "--check", str(arrays)]
    if difference is not None:
        words += ["--rtol", f"{_rtol(difference, wanted[difference.result]):.3g}"]
    return shlex.join(words)


def _rtol(difference: Difference, want: Array) -> float:
    """What `xladev run` must allow to see the difference: a tenth of the largest value counts."""
    size = np.abs(np.asarray(want, np.complex128))
    largest = float(np.max(np.where(np.isfinite(size), size, 0)))
    allowed = difference.allowed / largest if largest else 0.0
    return min(allowed, DEFAULT_RTOL) if np.isfinite(allowed) else DEFAULT_RTOL
