"""The Markdown page of whole models: times, first calls, memory, and against whom we are behind."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from benchmarks.cpu.report import CLOCK_WORDS, Facts, best, shown_time, table
from benchmarks.cpu.results import OURS, XLA, PeerResult, RowResult
from benchmarks.cpu.statistics import Ratio, capped_geometric_mean
from benchmarks.models.weights_read import weights_read, without_copy

PAGE = """\
# Whole models on the CPU

<!-- Written by `python -m benchmarks.models`. -->

Medians; behind them how many times as long as xladev each peer takes (above 1, xladev is faster)
with a 95% interval over rounds. Peers take turns within one run, each in a process of its own.
ONNX Runtime, OpenVINO and frozen torch.compile hold weights as constants and pack them beforehand;
xladev and XLA:CPU do so in rows of constant weights alone.

Measured on {machine}. {clock} Load average while measuring: {load}.

{versions}

{sections}
"""


def page(results: Sequence[RowResult], facts: Facts, first_calls: str = "") -> str:
    """The whole page.

    Args:
        results: rows in order, of every number of threads.
        facts: where and when.
        first_calls: the section of `benchmarks.models.first_calls`.
    """
    loads = [r.load for r in results]
    reading = weights_read(results, facts)
    results = [without_copy(r) for r in results]
    sections = [_summary(results, facts)]
    sections += [_times(_of(results, n), facts) for n in _threads(results)]
    sections += [
        reading,
        first_calls,
        _first_calls(results),
        _memory(results),
        _left_out(results),
        _missing(facts),
    ]
    return PAGE.format(
        machine=facts.machine,
        clock=CLOCK_WORDS[facts.clock],
        load=f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown",
        versions="\n".join(f"- {name}: {what}" for name, what in facts.versions.items()),
        sections="\n\n".join(section for section in sections if section),
    )


def _threads(results: Iterable[RowResult]) -> list[int]:
    return sorted({r.threads for r in results})


def _of(results: Iterable[RowResult], threads: int) -> list[RowResult]:
    return [r for r in results if r.threads == threads]


def _summary(results: Sequence[RowResult], facts: Facts) -> str:
    lines: list[list[str]] = []
    for threads in _threads(results):
        every = [r.ratios(facts.clock_of(threads)) for r in _of(results, threads)]
        cells = [str(threads), str(len(every))]
        for ratios in ([r.get(XLA) for r in every], [best(r) for r in every]):
            known = [r for r in ratios if r is not None]
            cells += [_mean(r.value for r in known), _behind(known)]
        lines.append(cells)
    head = ["threads", "rows", "against XLA:CPU", "behind", "against the best peer", "behind"]
    return "## Summary\n\nGeometric means.\n\n" + table(head, lines)


def _mean(values: Iterable[float]) -> str:
    mean = capped_geometric_mean(values)
    return "" if math.isnan(mean) else f"{mean:.2f}"


def _behind(known: Sequence[Ratio]) -> str:
    return f"{sum(r.is_behind for r in known)} of {len(known)}"


def _times(rows: Sequence[RowResult], facts: Facts) -> str:
    if not rows:
        return ""
    threads = rows[0].threads
    clock = facts.clock_of(threads)
    names = _names(rows)
    lines: list[list[str]] = []
    for r in rows:
        ratios = r.ratios(clock)
        ours = r.peers.get(OURS, PeerResult()).times(clock)
        fastest = best(ratios)
        lines.append(
            [
                r.name,
                shown_time(statistics.median(ours)) if ours else "failed",
                *(str(ratios[name]) if name in ratios else "" for name in names),
                "**behind**" if fastest is not None and fastest.is_behind else "",
            ]
        )
    title = f"## {threads} thread{'s' * (threads > 1)}"
    return f"{title}\n\n" + table(["", "xladev", *names, ""], lines)


def _names(rows: Iterable[RowResult]) -> list[str]:
    """Peers that were timed, in order."""
    return list(dict.fromkeys(n for r in rows for n, p in r.peers.items() if p.wall and n != OURS))


def _first_calls(results: Sequence[RowResult]) -> str:
    """Processor seconds from the program to the first result."""
    rows = _of(results, min(_threads(results), default=1))
    names = [OURS, *_names(rows)]
    lines: list[list[str]] = []
    ratios: list[float] = []
    for r in rows:
        seconds = {name: first for name in names if (first := _first(r.peers.get(name)))}
        if OURS not in seconds:
            continue
        if XLA in seconds:
            ratios.append(seconds[XLA] / seconds[OURS])
        warm = r.peers[OURS].warm_s
        shown = [shown_time(seconds[name]) if name in seconds else "" for name in names]
        ratio = f"{ratios[-1]:.2f}" if XLA in seconds else ""
        lines.append([r.name, *shown, ratio, shown_time(warm[1]) if warm else ""])
    if not lines:
        return ""
    said = f"XLA:CPU's over ours, geometric mean: {_mean(ratios)}." if ratios else ""
    head = ["", *names, f"{XLA} over xladev", "xladev, compilation from its cache"]
    text = (
        "Processor time of all threads from the program, read into memory, to the first result, "
        f"in the processes whose calls were timed above. {said}"
    )
    return f"## First calls with each peer\n\n{text}\n\n{table(head, lines)}"


def _first(peer: PeerResult | None) -> float | None:
    if peer is None or peer.first_s is None:
        return None
    return peer.first_s[1] + (peer.compile_s[1] if peer.compile_s else 0)


def _memory(results: Sequence[RowResult]) -> str:
    rows = _of(results, min(_threads(results), default=1))
    names = [OURS, *_names(rows)]
    lines = [
        [r.name, *(_peak(r.peers.get(name)) for name in names)]
        for r in rows
        if OURS in r.peers and r.peers[OURS].memory
    ]
    text = "Peak of the process in megabytes, arguments as files hold them among it."
    return f"## Memory\n\n{text}\n\n{table(['', *names], lines)}" if lines else ""


def _peak(peer: PeerResult | None) -> str:
    nbytes = peer.memory.get("peak") if peer else None
    return "" if nbytes is None else f"{nbytes / 1e6:.0f}"


def _left_out(results: Sequence[RowResult]) -> str:
    said = dict[str, list[str]]()
    for r in results:
        for name, peer in r.peers.items():
            if why := peer.left_out or peer.differs:
                said.setdefault(f"{name}: {why}", []).append(r.name)
    lines = [f"- {what} ({', '.join(dict.fromkeys(names))})" for what, names in said.items()]
    return "## Left out, or other results\n\n" + "\n".join(lines) if lines else ""


def _missing(facts: Facts) -> str:
    names = ", ".join(facts.not_measured)
    return f"Not measured yet: {names}." if names else ""
