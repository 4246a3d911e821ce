"""A program with its arguments as two files, and the command that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xladev.errors import FileError
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.hlo.text import print_module
from xladev.testing.arrays import save_arrays
from xladev.testing.verdict import flat_arrays


class CaseFiles(NamedTuple):
    """Where a case is: the program as HLO text, and its arguments as ``in_*``."""

    text: Path
    arrays: Path


def write_case(folder: Path, name: str, module: HloModule, arguments: Sequence[Value]) -> CaseFiles:
    """Writes a program and its arguments.

    Raises:
        FileError: they cannot be written.
    """
    files = CaseFiles(folder / f"{name}.hlo", folder / f"{name}.npz")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.text.write_text(print_module(module), "utf-8")
    except OSError as error:
        raise FileError.of("cannot write", files.text, error) from error
    save_arrays(files.arrays, flat_arrays(arguments), [])
    return files


def case_words(
    files: CaseFiles, platform: str, against: str, options: Sequence[str] = ()
) -> list[str]:
    """The words of the command that runs a case and compares it with another platform."""
    words = ["xladev", "run", str(files.text), "--inputs", str(files.arrays)]
    words += ["--platform", platform, "--against", against]
    return words + [word for option in options for word in ("--option", option)]
