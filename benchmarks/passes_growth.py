"""Time per instruction of passes, reading and writing, from 1,000 to 50,000 instructions.

``python -m benchmarks.passes_growth`` prints two tables; ``--write PAGE`` makes the reference page
of them. A row whose time per instruction grows to more than `MOST_GROWTH` times is marked, and the
exit status is 1 if there is one, or if the pipeline needs more than `BUDGET_US`.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.growth_modules import KINDS
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import parse_module, print_module
from xladev.hlo.verifier import verify
from xladev.passes.default import clean_up_pipeline, default_pipeline
from xladev.passes.registry import PASSES

SIZES = (1_000, 10_000, 50_000)
BUDGET_US = 300.0
"""CPU time that all passes together may take per instruction (see the architecture)."""
MOST_GROWTH = 2.0
"""How much the time per instruction may grow from the smallest module to the largest.

Caches of the processor and the collector of garbage account for nearly all of it."""

Timed = Callable[[HloModule], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing measured on one kind of module.

    Attributes:
        name: what ran.
        kind: on which kind of module.
        us: microseconds of CPU time per instruction of the module, by size.
    """

    name: str
    kind: str
    us: tuple[float, ...]

    @property
    def growth(self) -> float:
        """Time per instruction of the largest module over that of the smallest."""
        return self.us[-1] / self.us[0]

    def is_linear(self) -> bool:
        """True if the growth is small, or the time is."""
        return self.growth <= MOST_GROWTH or self.us[-1] < 1.0


def all_passes(module: HloModule) -> HloModule:
    """What a module goes through that needs expansions."""
    return clean_up_pipeline().run(default_pipeline().run(module))


def whole(module: HloModule) -> Mapping[str, Callable[[], object]]:
    """What happens to all of a module, with its inputs made ready."""
    text, data = print_module(module), write_module(module)
    return {
        "all passes": lambda: all_passes(module),
        "verify": lambda: verify(module),
        "print text": lambda: print_module(module),
        "parse text": lambda: parse_module(text),
        "write proto": lambda: write_module(module),
        "read proto": lambda: read_module(data),
    }


def each_pass(module: HloModule) -> Mapping[str, Callable[[], object]]:
    """Every pass alone."""

    def running(name: str) -> Callable[[], object]:
        return lambda: PASSES[name]().run(module)

    return {name: running(name) for name in sorted(PASSES)}


def measured(
    kind: str,
    sizes: Sequence[int],
    what: Callable[[HloModule], Mapping[str, Callable[[], object]]],
) -> list[Row]:
    """Rows for one kind of module."""
    found: dict[str, list[float]] = {}
    for size in sizes:
        module = KINDS[kind](size)
        gc.collect()
        rounds = max(1, min(3, 10_000 // size))
        for name, run in what(module).items():
            seconds = min(_seconds(run) for _ in range(rounds))
            found.setdefault(name, []).append(seconds / module.instruction_count * 1e6)
            print(f"{kind} {size} {name}: {found[name][-1]:.1f} us", file=sys.stderr)
    return [Row(name, kind, tuple(us)) for name, us in found.items()]


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def slowest(rows: Iterable[Row]) -> list[Row]:
    """Of each name the row that grows most if one is marked, else the slowest."""
    found: dict[str, Row] = {}
    for row in rows:
        best = found.setdefault(row.name, row)
        if (not row.is_linear(), row.us[-1]) > (not best.is_linear(), best.us[-1]):
            found[row.name] = row
    return list(found.values())


def table(rows: Sequence[Row], sizes: Sequence[int]) -> str:
    """Rows in Markdown."""
    head = ["", "kind", *(f"{size:,}" for size in sizes), "growth"]
    lines = [f"| {' | '.join(head)} |", "|---|---" + "|--:" * (len(sizes) + 1) + "|"]
    for row in rows:
        mark = "" if row.is_linear() else " **grows**"
        times = " | ".join(f"{us:.1f}" for us in row.us)
        lines.append(f"| {row.name} | {row.kind} | {times} | {row.growth:.2f}{mark} |")
    return "\n".join(lines)


def machine() -> str:
    """Processor, Python, date and commit, in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    today = datetime.datetime.now(tz=datetime.UTC).date()
    return f"{model}, Python {platform.python_version()}, {today}, commit {commit or 'unknown'}"


PAGE = """\
# Growth of passes

<!-- Written by `python -m benchmarks.passes_growth --write docs/reference/passes-growth.md`. -->

Microseconds of CPU time per instruction of the module, for modules of 1,000 to 50,000
instructions, and how much that grows from the smallest to the largest. All passes together may take
{budget:.0f} us per instruction; what grows to more than {growth:.1f} times is marked.

Measured on {machine}.

The kinds of modules: many small computations called once each (`calls`), one long chain with shared
operands (`chain`), few values with very many users (`fan-out`), many small loops and branches with
computations of their own (`loops`), a bit of everything (`mixed`), reshapes, slices and conversions
(`movement`), tuples of thousands of parts (`tuples`).

## Whole modules

`all passes` is the default pipeline, then the one that cleans up after expansions.

{whole}

## Each pass alone

On the kind of module where it is slowest, or where it grows.

Most of the growth is Python's collector of garbage, which looks at all that is alive. Measured
without it at 1,000 and 50,000 instructions: `while-invariant-motion` on `loops` 14.0 and 15.8,
`call-inliner` on `mixed` 8.2 and 10.7, `cse` on `mixed` 7.1 and 8.5. Tests count calls of functions
instead (`tests/unit/passes/behaviour/test_growth.py`): these grow by less than 1.4.

{passes}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints and says with the exit status whether all is well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args(arguments)
    sizes, kinds = [int(s) for s in options.sizes.split(",")], options.kinds.split(",")
    complete = [row for kind in kinds for row in measured(kind, sizes, whole)]
    order = list(dict.fromkeys(row.name for row in complete))
    complete.sort(key=lambda row: order.index(row.name))
    passes = slowest(row for kind in kinds for row in measured(kind, sizes, each_pass))
    page = PAGE.format(
        budget=BUDGET_US,
        growth=MOST_GROWTH,
        machine=machine(),
        whole=table(complete, sizes),
        passes=table(passes, sizes),
    )
    print(page)
    if options.write:
        options.write.write_text(page)
    over = [r for r in complete if r.name == "all passes" and max(r.us) > BUDGET_US]
    return int(bool(over) or not all(r.is_linear() for r in (*complete, *passes)))


if __name__ == "__main__":
    sys.exit(main())
