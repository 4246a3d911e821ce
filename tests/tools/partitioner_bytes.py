"""What a device receives in collectives, in XLA's partitioner and in this one, program by program.

    python -m tests.tools.partitioner_bytes spmd_partitioner_test.cc --kept FOLDER
    python -m tests.tools.partitioner_bytes spmd_partitioner_test.cc --kept FOLDER --only NAME

The file is XLA's test of its partitioner. Each program is compiled by XLA:CPU in a child process
(`tests.tools.xla_partitioned`), whose answer is kept in the folder, so that a second run asks only
for what is missing. Both sides are counted after each one's clean-up. bf16 counts as f32 on both,
for XLA:CPU adds up in that. What a loop receives counts as often as it runs where that is plain to
see, and once otherwise. Needs jaxlib.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.collective_traffic import collective_traffic
from tests.tools.partitioner_cases import Case, cases
from xladev.compiler.cost import loop_iterations
from xladev.compiler.prepare import sharding_pipeline
from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.default import default_pipeline

LIMIT_S = 120
"""Seconds of one compilation."""


@dataclass(frozen=True)
class Counted:
    """Bytes that a device receives; or why there are none to count."""

    nbytes: float = 0
    kinds: tuple[tuple[str, float], ...] = ()
    fault: str = ""

    def __str__(self) -> str:
        listed = ", ".join(f"{kind} {n:,.0f}" for kind, n in self.kinds if n)
        return self.fault or f"{self.nbytes:,.0f} ({listed})"


def counted(module: HloModule, count: int) -> Counted:
    """The traffic of a program of one device."""
    found = loop_iterations(module)
    loops = {
        i.name: found.get(i.name, 1)
        for c in module.computations
        for i in c.instructions
        if i.opcode == "while"
    }
    traffic = collective_traffic(module, count, loops)
    return Counted(traffic.total_nbytes, tuple(sorted(traffic.nbytes.items())))


def ours(case: Case) -> Counted:
    """What this partitioner makes of a program."""
    try:
        made = default_pipeline(2).run(sharding_pipeline().run(case.module))
        return counted(made, case.count)
    except XladevError as error:
        return Counted(fault=f"refused: {type(error).__name__}: {str(error)[:300]}")


def theirs(case: Case, kept: Path) -> Counted:
    """What XLA makes of it."""
    path = kept / f"{case.name}.hlo"
    if not path.exists():
        path.write_text(_compiled(case), "utf-8")
    text = path.read_text("utf-8")
    if text.startswith("HloModule"):
        return counted(parse_module(text), case.count)
    lines = [line for line in text.splitlines() if "rror" in line or "heck failed" in line]
    return Counted(fault=f"XLA: {(lines or [text[-200:]])[-1][:300]}")


def _compiled(case: Case) -> str:
    command = [sys.executable, "-m", "tests.tools.xla_partitioned", str(case.count)]
    try:
        done = subprocess.run(
            command, input=case.text, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"error: more than {LIMIT_S} s"
    return done.stderr[-4000:] + "\nerror\n" if done.returncode else done.stdout


def compared(case: Case, kept: Path) -> tuple[str, Counted, Counted]:
    """``fewer``, ``equal``, ``more`` or what there is no answer of; and both counts."""
    wide = replace(case, text=case.text.replace("bf16[", "f32["))
    there = theirs(wide, kept)
    here = ours(wide)
    if here.fault:
        return "refused", here, there
    if there.fault:
        return "not compiled by XLA", here, there
    if abs(here.nbytes - there.nbytes) < 0.5:
        return "equal", here, there
    return ("fewer" if here.nbytes < there.nbytes else "more"), here, there


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, help="spmd_partitioner_test.cc")
    parser.add_argument("--kept", type=Path, required=True, help="folder of XLA's answers")
    parser.add_argument("--only", default="", help="names with this in them")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    kinds: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
    for case in cases(given.file):
        if given.only not in case.name:
            continue
        signal.alarm(4 * LIMIT_S)
        kind, here, there = compared(case, given.kept)
        kinds[kind] += 1
        print(f"{kind:8} {case.name} ({case.count}): {here} | {there}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
