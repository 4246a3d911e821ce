"""What training cut in four ways moves and holds on each device, against theory.

``python -m benchmarks.sharded_training`` prints two tables of `examples/jax_sharded`; ``--write``
puts them into docs/reference/sharding.md. Bytes are counted in the compiled program, so they are
the same on every run; a test holds them against the page. Needs jax and xladev-pjrt.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.collective_traffic import KINDS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "sharding.md"
WAYS = ("data", "tensor", "sequence", "optimiser")
LOSS = 4
"""Bytes of the loss, a sum over the examples too."""

Measured = Mapping[str, Any]


def ring(nbytes: float, devices: int) -> float:
    """What one of them receives of an all-gather, or in each half of an all-reduce."""
    return nbytes * (devices - 1) / devices


def theory(way: str, sizes: Measured) -> float:
    """Bytes that a device receives in one step, on a mesh of 4 x 2."""
    weights: Mapping[str, int] = sizes["weights"]
    whole, ends = sum(weights.values()), weights["embedding"] + weights["position"]
    layers, per_layer = whole - ends, sizes["activations"] // 2
    if way == "data":  # the gradients' sum
        return 2 * ring(whole + LOSS, 8)
    if way == "tensor":  # four sums of activations in each layer, and the gradients' over "y"
        return 4 * sizes["layers"] * 2 * ring(per_layer, 4) + 2 * ring(layers / 4 + ends + LOSS, 2)
    if way == "sequence":  # keys and values are gathered, their gradients scattered
        return 4 * sizes["layers"] * ring(per_layer, 4) + 2 * ring(whole + LOSS, 8)
    # weights are gathered forward and, those of layers, backward; gradients are scattered
    return ring(2 * layers + ends, 8) + ring(whole, 8) + 2 * ring(LOSS, 8)


def held(way: str, sizes: Measured) -> float:
    """Bytes of weights, two moments, the count of steps, and words, on one device."""
    weights: Mapping[str, int] = sizes["weights"]
    whole, ends = sum(weights.values()), weights["embedding"] + weights["position"]
    kept = {"tensor": (whole - ends) / 4 + ends, "optimiser": whole / 8}.get(way, whole)
    return 3 * kept + 4 + sizes["words"] / (2 if way == "tensor" else 8)


def traffic_line(way: str, sizes: Measured) -> str:
    """A row of the first table."""
    counts, nbytes = sizes["counts"], sizes["nbytes"]
    cells = [f"{counts[k]}: {nbytes[k]:,.0f}" if k in counts else "" for k in KINDS]
    total, least = sum(nbytes.values()), theory(way, sizes)
    return row(way, *cells, f"{total:,.0f}", f"{least:,.0f}", f"{total / least:.2f}")


def memory_line(way: str, sizes: Measured) -> str:
    """A row of the second table, without the peak."""
    return row(way, f"{sizes['held']:,}", f"{held(way, sizes):,.0f}")


def row(*cells: str) -> str:
    """A row in Markdown."""
    return f"| {' | '.join(cells)} |"


def traffic_table(found: Mapping[str, Measured]) -> str:
    """Markdown."""
    head = row("cut", *KINDS, "received", "theory", "ratio")
    lines = [traffic_line(way, sizes) for way, sizes in found.items()]
    return "\n".join([head, "|---" + "|--:" * 8 + "|", *lines])


def memory_table(found: Mapping[str, Measured]) -> str:
    """Markdown."""
    head = row("kept by each device", "bytes", "theory", "peak of a step")
    lines = [f"{memory_line(way, s)} {s['peak']:,} |" for way, s in found.items()]
    return "\n".join([head, "|---|--:|--:|--:|", *lines])


def page(found: Mapping[str, Measured]) -> str:
    """The reference page, with these tables."""
    text = PAGE.read_text("utf-8")
    for table in (traffic_table(found), memory_table(found)):
        before, start, rest = text.partition(table.partition("|--")[0])
        if not start:
            raise ValueError(f"{PAGE} has no table {table.splitlines()[0]}")
        text = before + table + rest[rest.index("\n\n") :]
    return text


def measured(way: str) -> Measured:
    """What the child says of a way."""
    names = {"XLADEV_CPU_DEVICES": "8", "JAX_PLATFORMS": "xladev_cpu"}
    command = [sys.executable, "-m", "benchmarks.sharded_training_child", way]
    root = Path(__file__).parents[1]
    done = subprocess.run(
        command, cwd=root, env=os.environ | names, stdout=subprocess.PIPE, text=True, check=True
    )
    found: Measured = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints both tables, or writes them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="the tables of the reference page")
    given = parser.parse_args(arguments)
    found = {way: measured(way) for way in WAYS}
    if given.write:
        PAGE.write_text(page(found), "utf-8")
    else:
        print(traffic_table(found), memory_table(found), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
