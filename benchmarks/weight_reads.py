"""Bytes of weights a second that products of one row read, beside a copy.

    python -m benchmarks.weight_reads --threads 1,2

A copy is NumPy's, of 128 MiB to other 128 MiB, cut among as many threads: its rate is what it
reads, and it writes as much. Weights are in so many copies that no cache holds them; bytes are
those of weights, scales and zero points as they are kept. Copies and products take turns in one
process; rates are medians. ``--clock cpu`` takes processor time, for one thread on a machine that
others use. All rows take about three minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from benchmarks.cpu.machine import machine
from benchmarks.cpu.report import table
from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

COPIED_NBYTES = 128 << 20
ROUNDS = 15
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True, slots=True)
class Kept:
    """How weights are kept.

    Attributes:
        bits: of a weight; 0 for the type that is multiplied.
        group: weights of a column with a scale of their own; 0 for all.
        has_zeros: true if each group has a zero point too.
    """

    bits: int = 0
    group: int = 0
    has_zeros: bool = False


KEPT = {
    "as they are": Kept(),
    "s8, a scale for each column": Kept(8),
    "s8, groups of 128": Kept(8, 128),
    "s4, a scale for each column": Kept(4),
    "s4, groups of 128": Kept(4, 128),
    "s4, groups of 32": Kept(4, 32),
    "u4, zero points, groups of 128": Kept(4, 128, has_zeros=True),
}


def product(dtype: str, kept: Kept, depth: int, columns: int, is_along: bool) -> HloModule:
    """One row times a matrix.

    Args:
        dtype: f32 or bf16.
        kept: how its weights are kept.
        depth: sums have so many terms.
        columns: how many sums.
        is_along: true if columns lie along memory, false if neighbours do.
    """
    outer, inner = (columns, depth) if is_along else (depth, columns)
    dims = f"{outer},{inner}"
    group = kept.group or depth
    groups = depth // group
    cut = f"{columns},{groups},{group}" if is_along else f"{groups},{group},{columns}"
    of, at = (f"{columns},{groups}", "0,1") if is_along else (f"{groups},{columns}", "0,2")
    whole = f"w = {dtype}[{dims}] parameter(1)"
    if kept.bits == 8:
        whole = f"q = s8[{dims}] parameter(1)  c = {dtype}[{dims}] convert(q)"
    elif kept.bits:
        half, kind = f"{outer},{inner // 2}", "u4" if kept.has_zeros else "s4"
        whole = f"""p = u8[{half}] parameter(1)  b = {kind}[{half},2] bitcast-convert(p)
      c = {dtype}[{half},2] convert(b)"""
    if kept.bits:
        whole += f"""  f = {dtype}[{cut}] reshape(c)  s = {dtype}[{of}] parameter(2)
      t = {dtype}[{cut}] broadcast(s), dimensions={{{at}}}"""
        if kept.has_zeros:
            whole += f"""  z = u8[{of}] parameter(3)  y = {dtype}[{of}] convert(z)
      o = {dtype}[{cut}] broadcast(y), dimensions={{{at}}}  u = {dtype}[{cut}] subtract(f, o)"""
        whole += f"""  m = {dtype}[{cut}] multiply({"u" if kept.has_zeros else "f"}, t)
      w = {dtype}[{dims}] reshape(m)"""
    return parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}[1,{depth}] parameter(0)
      {whole}
      ROOT d = {dtype}[1,{columns}] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(is_along)}}} }}""")


def drawn(module: HloModule, seed: int = 0) -> list[np.ndarray]:
    """Arguments: numbers around zero, and whole numbers of 4 bits or of all."""
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for p in module.entry.parameters:
        dtype, dims = p.shape.element_type, p.shape.dims
        if dtype.is_float:
            found.append(rng.standard_normal(dims, np.float32).astype(dtype.np))
        else:
            most = 16 if len(found) == 3 else 128
            found.append(rng.integers(0, most, dims, np.uint8).astype(dtype.np))
    return found


def copier(threads: int) -> Callable[[], None]:
    """A copy by so many threads."""
    source, target = np.ones(COPIED_NBYTES, np.uint8), np.zeros(COPIED_NBYTES, np.uint8)
    parts = list(zip(*(np.array_split(a, threads) for a in (target, source)), strict=True))
    pool = ThreadPoolExecutor(threads)

    def call() -> None:
        if threads == 1:
            np.copyto(*parts[0])
        else:
            wait([pool.submit(np.copyto, *part) for part in parts])

    return call


def rates(
    module: HloModule, threads: int, copy: Callable[[], None], clock: Callable[[], float]
) -> tuple[float, float]:
    """Bytes a second that the product reads of its weights, and the copy of what it copies."""
    given = drawn(module)
    nbytes = sum(a.nbytes for a in given[1:])
    count = min(max(2, -(-COPIED_NBYTES // nbytes)), 64)
    sets = cycle([[given[0], *(a.copy() for a in given[1:])] for _ in range(count)])
    run = compile_for(module, "cpu", CompileOptions(threads=threads))
    for _ in range(3):
        run(*next(sets))

    def seconds(call: Callable[[], object]) -> float:
        start = clock()
        call()
        return clock() - start

    taken = [(seconds(lambda: run(*next(sets))), seconds(copy)) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(each) for each in zip(*taken, strict=True))
    return nbytes / ours, COPIED_NBYTES / theirs


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.weight_reads")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--depth", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=5632)
    options = parser.parse_args(arguments)
    lines = list[list[str]]()
    for threads in map(int, options.threads.split(",")):
        copy = copier(threads)
        for dtype in ("f32", "bf16"):
            for name, kept in KEPT.items():
                line = [dtype, name, str(threads)]
                for is_along in (True, False):
                    module = product(dtype, kept, options.depth, options.columns, is_along)
                    ours, theirs = rates(module, threads, copy, CLOCKS[options.clock])
                    line += [f"{ours / 1e9:.1f}", f"{theirs / 1e9:.1f}", f"{ours / theirs:.2f}"]
                print(*line, sep="  ", file=sys.stderr, flush=True)
                lines.append(line)
    head = ["in", "weights", "threads"]
    for where in ("along memory", "neighbours"):
        head += [f"columns {where}, GB/s", "a copy", "share"]
    print(
        f"{machine()}; {options.clock} clock; one row times [{options.depth},{options.columns}]\n"
    )
    print(table(head, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
