"""How fast steps of decoding read their weights, beside a copy of as many bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.cpu.report import Facts, table
from benchmarks.cpu.results import OURS, XLA, PeerResult, RowResult

COPY = "a copy"
"""The peer that copies as many bytes as a step reads of its weights."""
_NAMES = (OURS, XLA, "ONNX Runtime", "OpenVINO")
_TEXT = """\
## Weights read by decoding

Bytes of all weights but the table of words, as they are kept, in GB a second of the whole step; a
copy of as many bytes, on as many threads, took turns with them. Last, ours over the copy's."""


def without_copy(result: RowResult) -> RowResult:
    """The row with those peers alone that compute it."""
    return replace(result, peers={n: p for n, p in result.peers.items() if n != COPY})


def weights_read(results: Sequence[RowResult], facts: Facts) -> str:
    """The section of the page; empty where no copy was timed."""
    lines = [line for result in results if (line := _line(result, facts))]
    if not lines:
        return ""
    names = [n for n in _NAMES if any(n in r.peers for r in results)]
    head = ["", "threads", "megabytes", *names, COPY, "of a copy's"]
    return f"{_TEXT}\n\n{table(head, [_cells(line, names) for line in lines])}"


def _line(result: RowResult, facts: Facts) -> dict[str, str]:
    copied = result.peers.get(COPY, PeerResult())
    nbytes, clock = copied.memory.get("copied", 0), facts.clock_of(result.threads)
    if not nbytes or not copied.times(clock):
        return {}
    rates = {
        name: nbytes / statistics.median(peer.times(clock)) / 1e9
        for name, peer in result.peers.items()
        if peer.times(clock)
    }
    shown = {name: f"{rate:.1f}" for name, rate in rates.items()}
    ratio = result.ratios(clock).get(COPY)
    row = {"": result.name, "threads": str(result.threads), "megabytes": f"{nbytes / 1e6:.0f}"}
    return row | shown | {"of a copy's": "" if ratio is None else str(ratio)}


def _cells(line: dict[str, str], names: Sequence[str]) -> list[str]:
    keys = ["", "threads", "megabytes", *names, COPY, "of a copy's"]
    return [line.get(key, "") for key in keys]
