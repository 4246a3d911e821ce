"""What tuning wins on the CPU: products of matrices, and the convolutions of a ResNet-50.

    python -m benchmarks.tuning [--rounds 21] [--only WORD]

Each program is compiled as ever, and with `cpu.autotune=on`, for one thread; both then take turns.
Prints microseconds of processor time of one call, medians of rounds, and what was chosen. Where
nothing was, the two are the same code, and their ratio says how far figures can be trusted. The
table of tactics goes to a folder that is removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

import xladev
from xladev.compiler.options import CompileOptions
from xladev.instrument import collect_decisions

SIZES = (64, 65, 96, 100, 127, 129, 160, 200, 255, 257, 300, 384, 385, 500, 511, 512)
SKINNY = ((1000, 16, 1000), (2, 1000, 1000), (8, 1000, 1000), (500, 10, 500), (32, 768, 768))
RESNET = (
    (224, 3, 64, 7, 2), (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1),
    (56, 256, 64, 1, 1), (56, 256, 128, 1, 1), (56, 128, 128, 3, 2), (28, 128, 512, 1, 1),
    (28, 512, 128, 1, 1), (28, 128, 128, 3, 1), (56, 256, 512, 1, 2), (28, 512, 256, 1, 1),
    (28, 256, 256, 3, 2), (14, 256, 1024, 1, 1), (14, 1024, 256, 1, 1), (14, 256, 256, 3, 1),
    (28, 512, 1024, 1, 2), (14, 1024, 512, 1, 1), (14, 512, 512, 3, 2), (7, 512, 2048, 1, 1),
    (7, 2048, 512, 1, 1), (7, 512, 512, 3, 1), (14, 1024, 2048, 1, 2),
)  # fmt: skip
"""Its convolutions at batch 1: size of the image, channels, features, window, stride."""
TRANSPOSES = (
    ("f32", (512, 512), (1, 0)), ("f32", (64, 3, 100, 100), (0, 2, 3, 1)),
    ("u8", (1000, 700), (1, 0)), ("u8", (300, 300), (1, 0)), ("u8", (100, 900), (1, 0)),
    ("bf16", (1000, 300), (1, 0)), ("bf16", (400, 400), (1, 0)), ("bf16", (512, 512), (1, 0)),
    ("f64", (512, 512), (1, 0)), ("f64", (600, 700), (1, 0)), ("f64", (100, 1000), (1, 0)),
)  # fmt: skip
_ARGSORT = """
    HloModule m
    less {{ a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)
      d = s32[] parameter(3)
      ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }}
    ENTRY e {{ x = f32[{rows},{size}] parameter(0)
      i = s32[{rows},{size}] iota(), iota_dimension=1
      ROOT s = (f32[{rows},{size}], s32[{rows},{size}]) sort(x, i), dimensions={{1}},
        is_stable=true, to_apply=less }}"""
SAMPLE_S = 0.002


def programs() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for size in SIZES:
        yield f"dot {size}", _dot(size, size, size)
    for m, n, k in SKINNY:
        yield f"dot {m}x{k} {k}x{n}", _dot(m, n, k)
    for rows, size in ((200, 100), (50, 400), (1000, 20)):
        yield f"argsort of {rows} rows of {size}", _ARGSORT.format(rows=rows, size=size)
    for dtype, dims, order in TRANSPOSES:
        yield (
            f"transpose {dtype} {'x'.join(map(str, dims))} by {order}",
            _transpose(dtype, dims, order),
        )
    for size in (200, 384):
        yield f"dot {size}, right operand transposed", _dot(size, size, size, columns=True)
    for size, channels, features, window, stride in RESNET:
        name = f"conv {size}x{size}x{channels} to {features}, {window}x{window}/{stride}"
        yield name, _convolution(size, channels, features, window, stride)


def _dot(m: int, n: int, k: int, columns: bool = False) -> str:
    right = f"{n},{k}" if columns else f"{k},{n}"
    return f"""
    HloModule m
    ENTRY e {{ x = f32[{m},{k}] parameter(0)  y = f32[{right}] parameter(1)
      ROOT d = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(columns)}}} }}"""


def _convolution(size: int, channels: int, features: int, window: int, stride: int) -> str:
    pad = window // 2
    out = (size + 2 * pad - window) // stride + 1
    return f"""
    HloModule m
    ENTRY e {{ x = f32[1,{size},{size},{channels}] parameter(0)
      w = f32[{window},{window},{channels},{features}] parameter(1)
      ROOT y = f32[1,{out},{out},{features}] convolution(x, w),
        window={{size={window}x{window} stride={stride}x{stride} pad={pad}_{pad}x{pad}_{pad}}},
        dim_labels=b01f_01io->b01f }}"""


def _transpose(dtype: str, dims: tuple[int, ...], order: tuple[int, ...]) -> str:
    before = ",".join(map(str, dims))
    after = ",".join(str(dims[d]) for d in order)
    return f"""
    HloModule m
    ENTRY e {{ x = {dtype}[{before}] parameter(0)
      ROOT y = {dtype}[{after}] transpose(x), dimensions={{{",".join(map(str, order))}}} }}"""


def _call(text: str, mode: str) -> tuple[Callable[[], object], str]:
    """A call of the program, and what was chosen for it."""
    module = xladev.parse(text)
    options = CompileOptions(threads=1, extras={"cpu.autotune": mode})
    with collect_decisions() as decisions:
        program = xladev.compile(module, "cpu", options)
    random = np.random.default_rng(0)
    shapes = [p.shape.dims for p in module.entry.parameters]
    types = [p.shape.element_type.numpy for p in module.entry.parameters]
    arrays = [
        random.standard_normal(dims, np.float32).astype(t)
        for dims, t in zip(shapes, types, strict=True)
    ]
    chosen = [d.why.partition(": ")[2] for d in decisions if d.step == "autotune"]
    return (lambda: program(*arrays)), "; ".join(chosen)


def _sample(call: Callable[[], object], runs: int) -> float:
    start = time.process_time_ns()
    for _ in range(runs):
        call()
    return (time.process_time_ns() - start) / runs / 1e3


def _measured(calls: tuple[Callable[[], object], ...], rounds: int) -> list[float]:
    """Microseconds of each, which take turns."""
    for call in calls:
        _sample(call, 5)
    runs = max(1, round(SAMPLE_S * 1e6 / max(_sample(calls[0], 3), 1.0)))
    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds):
        order = range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls)))
        for n in order:
            samples[n].append(_sample(calls[n], runs))
    return [statistics.median(s) for s in samples]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    given = parser.parse_args()
    ratios: list[float] = []
    sys.stdout.write("| | off, us | tuned, us | off / tuned | chosen |\n|---|--:|--:|--:|---|\n")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLADEV_CACHE"] = f"{folder}/cache"
        for name, text in programs():
            if given.only not in name:
                continue
            off, _ = _call(text, "off")
            tuned, chosen = _call(text, "on")
            before, after = _measured((off, tuned), given.rounds)
            ratios.append(before / after)
            row = f"| {name} | {before:.1f} | {after:.1f} | {ratios[-1]:.2f} | {chosen} |\n"
            sys.stdout.write(row)
            sys.stdout.flush()
    if ratios:
        sys.stdout.write(f"\ngeometric mean {statistics.geometric_mean(ratios):.3f}\n")


if __name__ == "__main__":
    main()
