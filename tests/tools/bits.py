"""Results of everything that the project can run, as digests: what a change must leave as it was.

python -m tests.tools.bits write before.json                       # at one commit
python -m tests.tools.bits write after.json                        # at another
python -m tests.tools.bits compare before.json after.json

Programs of ../shared, StableHLO's cases and the conformance suite's run with the same arguments at
both commits, on one machine. A digest covers the bits of all results, or the code of the error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.conftest import CASES_ZIP, PROGRAMS
from tests.tools import cases
from tests.tools.plugins import emulated_cuda
from tests.tools.programs import ExportedProgram, program_names
from xladev.errors import XladevError
from xladev.testing.conformance.case import Case, load_cases
from xladev.testing.differential import run_on_platform
from xladev.testing.random_inputs import random_arguments

PLATFORMS = ("cpu", "template_npu", "cuda_emu")
CONFORMANCE = Path(__file__).parents[1] / "conformance"
Run = Callable[[str], Sequence[Any]]
"""From the name of a platform to the results there."""


def exported_programs() -> Iterator[tuple[str, Run]]:
    """The programs of ../shared, with random arguments."""
    for name in program_names(PROGRAMS):
        module = ExportedProgram(PROGRAMS, name).module()
        arguments = random_arguments(module, 0)
        yield f"programs/{name}", partial(run_on_platform, module, arguments)


def stablehlo_cases(folder: Path) -> Iterator[tuple[str, Run]]:
    """StableHLO's cases, unpacked into a folder."""
    with zipfile.ZipFile(CASES_ZIP) as archive:
        archive.extractall(folder)
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        case = cases.Case(path)
        yield f"stablehlo/{path.name}", partial(_run_stablehlo, case)


def conformance_cases() -> Iterator[tuple[str, Run]]:
    """The programs of the conformance suite, with its own arguments."""
    for path in sorted(CONFORMANCE.glob("*.py")):
        if path.stem in ("__init__", "conftest"):
            continue
        for case in load_cases(path):
            if isinstance(case, Case) and case.replicas == case.partitions == 1:
                yield f"conformance/{path.stem}::{case.name}", partial(_run_case, case)


def _run_case(case: Case, platform: str) -> Sequence[Any]:
    module = case.module()
    return [r for row in case.runs(module, 0) for r in run_on_platform(module, row, platform)]


def _run_stablehlo(case: cases.Case, platform: str) -> Sequence[Any]:
    return run_on_platform(case.module(), case.inputs(), platform)


def digest(run: Run, platform: str) -> str:
    """Of the bits of all results, with their types; or the code of the error."""
    try:
        results = [np.asarray(r) for r in run(platform)]
    except XladevError as error:
        return f"error {error.code}"
    except Exception as error:  # noqa: BLE001 - a run that ends so must end so again
        return f"error {type(error).__name__}"
    made = hashlib.sha256()
    for result in results:
        made.update(f"{result.dtype} {result.shape}\0".encode() + result.tobytes())
    return made.hexdigest()[:16]


def write(path: Path, platforms: Sequence[str], every: int) -> None:
    """Runs one program in ``every``, and writes their digests as JSON."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, emulated_cuda():
        sources = (exported_programs(), stablehlo_cases(Path(folder)), conformance_cases())
        for at, (name, run) in enumerate(pair for source in sources for pair in source):
            if at % every:
                continue
            for platform in platforms:
                found[f"{platform} {name}"] = digest(run, platform)
    path.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    print(f"{len(found)} results, {sum(v.startswith('error') for v in found.values())} errors")


def compare(before: Path, after: Path) -> int:
    """Prints what differs of what ran at both; 1 if anything does, or if nothing ran at both."""
    old, new = (json.loads(p.read_text()) for p in (before, after))
    both = sorted(old.keys() & new.keys())
    differing = [key for key in both if old[key] != new[key]]
    for key in differing:
        print(f"{key}: {old[key]} -> {new[key]}")
    print(f"{len(old)} results before, {len(new)} after, {len(both)} in both")
    print(f"{len(differing)} differ")
    return int(bool(differing) or not both)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="run, and write the digests")
    writing.add_argument("file", type=Path)
    writing.add_argument("--platforms", nargs="+", default=PLATFORMS)
    writing.add_argument("--every", type=int, default=1, help="run one program in so many")
    comparing = commands.add_parser("compare", help="say which digests differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "compare":
        return compare(arguments.before, arguments.after)
    os.environ["XLADEV_CACHE"] = "off"
    write(arguments.file, arguments.platforms, arguments.every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
