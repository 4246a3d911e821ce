"""A training step of GPT-2 small on the device of torch beside eager torch, in turn in one process.

    python -m benchmarks.torch.device --batch 1 --tokens 128
    python -m benchmarks.torch.device --batch 2 --tokens 256 --threads 2 --dropout

Both train the configuration that transformers has by default (124 million parameters) by AdamW
from the same weights; a step ends when its loss has been read. Prints the losses, elapsed and
processor seconds of each step, the bytes in use on the device after it and programs compiled so
far; then medians over rounds, and the speed of the device over eager's with a 95% interval. With
``--profile`` it prints where the host's time of a step goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import xladev.torch
from benchmarks.cpu.statistics import ratio
from benchmarks.torch.child import prepare_environment
from benchmarks.torch.models import MODELS, make
from xladev.compiler.options import CompileOptions

SETTLING = 3
"""Steps that are not measured; programs are compiled in them."""


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dropout", action="store_true", help="drop as by default, one in ten")
    parser.add_argument("--fused", action="store_true", help="AdamW(fused=True)")
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


def training(device: str, given: argparse.Namespace) -> Callable[[], float]:
    """A step that gives its loss."""
    torch.manual_seed(0)
    model: Any = MODELS["gpt2 small"]()[0] if given.dropout else make("gpt2 small")[0]
    for module in model.modules():
        if given.dropout and isinstance(module, torch.nn.Dropout):
            module.p = 0.1
    model.train().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=given.fused or None)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 50257, (given.batch, given.tokens), generator=generator).to(device)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def timed(step: Callable[[], float]) -> tuple[float, float, float]:
    """Elapsed and processor seconds of a step, and its loss."""
    elapsed, processor = time.perf_counter(), time.process_time()
    loss = step()
    return time.perf_counter() - elapsed, time.process_time() - processor, loss


def profile(step: Callable[[], float]) -> None:
    """Prints where a step's time goes, as far as Python sees it."""
    with cProfile.Profile() as profiler:
        step()
    stats = pstats.Stats(profiler)
    stats.sort_stats("cumulative").print_stats(45)
    stats.sort_stats("tottime").print_stats(30)


def main() -> None:
    """See the module."""
    given = parse()
    prepare_environment(given.threads)
    torch.set_num_threads(given.threads)
    xladev.torch.register(
        "npu", platform=given.platform, options=CompileOptions(threads=given.threads)
    )
    counts = xladev.torch.report()
    steps = {name: training(name, given) for name in ("npu", "cpu")}
    found: dict[str, list[tuple[float, float, float]]] = {"npu": [], "cpu": []}
    for at in range(SETTLING + given.rounds):
        for name, step in steps.items():
            found[name].append(timed(step))
        seconds, processor, loss = found["npu"][-1]
        print(
            f"step {at}: {torch.npu.memory_allocated()} bytes, {counts.compiled} programs, "
            f"loss {loss}, eager's {found['cpu'][-1][2]}; "
            f"{seconds:.3f} s, processor {processor:.3f}; "
            f"eager's {found['cpu'][-1][0]:.3f}, {found['cpu'][-1][1]:.3f}",
            flush=True,
        )
    for place, kind in enumerate(("elapsed", "processor")):
        ours, theirs = ([each[place] for each in found[name][SETTLING:]] for name in ("npu", "cpu"))
        print(
            f"{kind}: {statistics.median(ours):.3f} s, eager {statistics.median(theirs):.3f}; "
            f"speed over eager's {ratio(ours, theirs)}"
        )
    print(counts)
    if given.profile:
        profile(steps["npu"])


if __name__ == "__main__":
    main()
