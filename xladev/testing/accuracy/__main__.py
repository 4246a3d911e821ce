"""How far the functions of a platform are from the truth, on a page.

    python -m xladev.testing.accuracy [--platform cpu] [--functions tanh,power] [--stride N]
        [--pairs N] [--doubles N] [--record FILE] [--write PAGE]

Without a stride, functions of one f32 are computed at all 2**32 inputs: minutes for each. What was
measured is recorded, so that a page can be made of several runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from xladev.hlo import dtype as dt
from xladev.testing.accuracy.measure import (
    Worst,
    doubles,
    every_f32,
    pairs,
    worst_of,
    wrongly_rounded,
)
from xladev.testing.accuracy.page import MeasuredFunction, page
from xladev.testing.accuracy.truth import BY_OPCODE, PROMISES, Promise

_SEED = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures functions, and says what was found; 1 if a promise is broken."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    names = chosen.functions.split(",") if chosen.functions else [p.opcode for p in PROMISES]
    unknown = set(names) - set(BY_OPCODE)
    if unknown:
        parser.error(f"no function {', '.join(sorted(unknown))}; there are {', '.join(BY_OPCODE)}")
    known = _read(chosen.record)
    for name in names:
        known[name] = _measured(BY_OPCODE[name], chosen)
        print(known[name].line(BY_OPCODE[name]), flush=True)
        if chosen.record:
            rows = {name: asdict(each) for name, each in known.items()}
            chosen.record.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    if chosen.write:
        chosen.write.write_text(page(chosen.platform, known), "utf-8")
    return 0 if all(known[name].is_kept(BY_OPCODE[name]) for name in names) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xladev.testing.accuracy", description="errors in units in the last place"
    )
    add = parser.add_argument
    add("--platform", default="cpu", help="what is measured (default: cpu)")
    add("--functions", default="", help="these alone, separated by commas")
    add("--stride", type=int, default=1, metavar="N", help="each N'th f32 (default: all)")
    add("--pairs", type=int, default=10**9, metavar="N", help="of f32, for functions of two")
    add("--doubles", type=int, default=1 << 24, metavar="N", help="inputs in f64")
    add("--record", type=Path, metavar="FILE", help="JSON that keeps what was measured")
    add("--write", type=Path, metavar="PAGE", help="Markdown of all that is recorded")
    return parser


def _read(path: Path | None) -> dict[str, MeasuredFunction]:
    if path is None or not path.is_file():
        return {}
    rows = json.loads(path.read_text("utf-8"))
    return {name: MeasuredFunction.of(row) for name, row in rows.items()}


def _measured(promise: Promise, chosen: argparse.Namespace) -> MeasuredFunction:
    platform = chosen.platform
    single = every_f32(chosen.stride) if promise.arity == 1 else pairs(promise, chosen.pairs, _SEED)
    wide = None
    if promise.has_wide_truth:
        inputs = doubles(promise, chosen.doubles, _SEED)
        wide = _last(worst_of(promise, dt.F64, platform, inputs))
    return MeasuredFunction(
        _last(worst_of(promise, dt.F32, platform, single)),
        wide,
        wrongly_rounded(promise, dt.BF16, platform),
        wrongly_rounded(promise, dt.F16, platform),
    )


def _last(found: Iterable[Worst]) -> Worst:
    worst = Worst()
    for each in found:
        worst = each
    return worst


if __name__ == "__main__":
    sys.exit(main())
