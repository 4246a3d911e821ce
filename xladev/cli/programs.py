"""The programs that commands are given: HLO, and what jaxlib or torch make HLO of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xladev.cli.output import progress
from xladev.client import load
from xladev.errors import CompileError, FormatError
from xladev.hlo.foreign import foreign_format
from xladev.hlo.ir import HloModule
from xladev.hlo.load import read_file

PROGRAM_HELP = (
    "HLO text or serialized HloModuleProto; StableHLO where jaxlib is installed, "
    ".pt2 of torch.export where torch is"
)
_STABLEHLO_CHILD = "xladev.frontends.jax.stablehlo_child"
_TORCH_CHILD = "xladev.frontends.torch.export_child"
MOST_S = 300.0
"""Seconds after which a conversion is given up."""


def load_program(path: Path) -> HloModule:
    """The program in a file.

    Raises:
        FormatError: no HLO, no StableHLO, and no program of torch.export.
        CompileError: StableHLO that jaxlib does not convert, or an export that torch does not.
        XladevError: malformed HLO, or the file cannot be read.
    """
    try:
        with progress(f"reading {path.name}"):
            return load(path)
    except FormatError:
        found = foreign_format(read_file(path)) if path.is_file() else None
        if found is None or (found.stablehlo is None and found.exported is None):
            raise
    with progress(f"converting {path.name}"):
        if found.stablehlo is not None:
            return load(_converted(found.stablehlo, path, _STABLEHLO_CHILD, "StableHLO"))
        assert found.exported is not None
        return load(_converted(found.exported, path, _TORCH_CHILD, "a program of torch.export"))


def _converted(code: bytes, path: Path, child: str, kind: str) -> bytes:
    """The HLO of another format, which jaxlib or torch makes in a process of its own."""
    words = [sys.executable, "-P", "-m", child]
    environment = dict(os.environ) | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": _search_path()}
    return run_converter(words, code, path, kind, environment)


def run_converter(
    words: Sequence[str], code: bytes, path: Path, kind: str, environment: Mapping[str, str]
) -> bytes:
    """What a process that converts a program prints.

    Args:
        words: its command.
        code: its standard input.
        path: of the program, for errors.
        kind: what the program is, for errors.
        environment: its variables.

    Raises:
        CompileError: it failed, cannot be started, or took more than `MOST_S` seconds.
    """
    try:
        done = subprocess.run(
            words, input=code, capture_output=True, timeout=MOST_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(
            f"{path} was not converted in {MOST_S:.0f} s", where=str(path), why=f"it is {kind}"
        ) from error
    except OSError as error:
        raise CompileError(
            f"{path} is {kind}, and was not converted", where=str(path),
            why=f"{words[0]} cannot be started: {error.strerror}", hint="name another interpreter",
        ) from error  # fmt: skip
    if done.returncode == 0:
        return done.stdout
    raise _failure(done.returncode, done.stderr.decode(errors="replace"), path, kind)


def _search_path() -> str:
    """Where this process finds its modules, for the child to find the same."""
    return os.pathsep.join(each or os.getcwd() for each in sys.path)


def _failure(code: int, said: str, path: Path, kind: str) -> CompileError:
    what = f"{path} is {kind}, and was not converted"
    lines = said.strip().splitlines() or [f"the process ended with code {code}"]
    try:
        found = json.loads(lines[-1])
    except ValueError:
        return CompileError(what, where=str(path), why=lines[-1], hint="export the program as HLO")
    why = found["what"] if not found["why"] else f"{found['what']}: {found['why']}"
    return CompileError(what, where=str(path), why=why, hint=found["hint"])
