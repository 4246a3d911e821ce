"""How much of exported programs runs on a platform's devices, and whether the results are right.

python -m tests.tools.device_share template_npu                      ../shared/programs
python -m tests.tools.device_share template_npu FOLDER NAME...       others, or some
"""

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.tools.programs import ExportedProgram, program_names
from xladev import client

FOLDER = Path(__file__).parents[3] / "shared" / "programs"


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """One program on one platform.

    Attributes:
        name: of the program.
        instructions: on the device, and in all.
        work: floating-point operations on the device, and in all; loop bodies count once.
        reasons: why instructions ran elsewhere, each once.
        problem: what is wrong with the results; empty if nothing is.
        seconds: compiling and running.
    """

    name: str
    instructions: tuple[int, int]
    work: tuple[int, int]
    reasons: tuple[str, ...]
    problem: str
    seconds: float


def device_share(program: ExportedProgram, platform: str) -> DeviceShare:
    """Compiles and runs a program, and looks at where its instructions ran."""
    start = time.perf_counter()
    executable = client.compile(program.module(), platform)
    problem = program.problem(executable)
    made = executable.program
    return DeviceShare(
        program.name,
        _share(made.instruction_counts, platform),
        _share(made.work_counts, platform),
        tuple(sorted({fallback.reason for fallback in made.fallbacks})),
        problem,
        time.perf_counter() - start,
    )


def _share(counts: Iterable[tuple[str, int]], platform: str) -> tuple[int, int]:
    found = dict(counts)
    return found.get(platform, 0), sum(found.values())


def percent(part: tuple[int, int]) -> float:
    """Of nothing, all."""
    return 100.0 * part[0] / part[1] if part[1] else 100.0


def line(found: DeviceShare) -> str:
    """One row of the report."""
    work = f"{percent(found.work):6.1f}%" if found.work[1] else "   none"
    shares = f"{work} {percent(found.instructions):6.1f}%"
    said = found.problem or "; ".join(found.reasons)
    return f"{found.name:28} {shares} {found.seconds:6.1f} s  {said}".rstrip()


def main() -> int:
    """Prints a row per program; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platform", help="its name; a kind is not enough")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    print(f"{'program':28} {'work':>7} {'instr.':>7} {'time':>8}  why not all of it")
    rows: list[DeviceShare] = []
    for name in arguments.names or program_names(arguments.folder):
        rows.append(device_share(ExportedProgram(arguments.folder, name), arguments.platform))
        print(line(rows[-1]), flush=True)
    work = sum(r.work[0] for r in rows), sum(r.work[1] for r in rows)
    wrong = sum(bool(r.problem) for r in rows)
    print(f"{len(rows)} programs, {wrong} wrong; {percent(work):.1f}% of floating-point work")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
