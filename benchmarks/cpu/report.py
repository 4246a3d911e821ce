"""The Markdown page of what was measured; rows that are behind are named as behind."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.cpu.results import OURS, XLA, PeerResult, RowResult
from benchmarks.cpu.rows import FAMILIES
from benchmarks.cpu.statistics import CAP, Ratio, capped_geometric_mean

TITLE = "Performance of the CPU backend"


@dataclass(frozen=True, slots=True)
class Facts:
    """Where and when it was measured.

    Attributes:
        machine: processor, memory, Python, date, commit.
        versions: by peer.
        left_out: why, by peer.
        not_measured: rows that nobody has run yet.
        clock: ``cpu``, ``wall``, or ``auto``: CPU time for one thread, wall time for more.
        title: of the page.
    """

    machine: str
    versions: dict[str, str] = field(default_factory=dict[str, str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    not_measured: tuple[str, ...] = ()
    clock: str = "auto"
    title: str = TITLE

    def clock_of(self, threads: int) -> str:
        """The clock whose times are shown."""
        return ("cpu" if threads == 1 else "wall") if self.clock == "auto" else self.clock


PAGE = """\
# {title}

<!-- Written by `python -m benchmarks.cpu`; how: see benchmarks/cpu. -->

Ratios say how many times as long as xladev a peer takes: above 1, xladev is faster. Behind each
stands its 95% interval (bootstrap over rounds). Every peer runs in a process of its own, all take
turns within one run, everyone allocates its results, waits for them and reads them. In means a
ratio counts {cap:.0f} at most. **Behind** are rows whose whole interval is below 1.

Measured on {machine}. {clock} Load average while measuring: {load}.

{versions}

{sections}
"""

CLOCK_WORDS = {
    "auto": "Times are CPU times with one thread, wall times with more.",
    "cpu": "Times are CPU times of all threads.",
    "wall": "Times are wall times.",
}
"""What a page says of its clock, by `Facts.clock`."""


def page(results: Sequence[RowResult], facts: Facts, plots: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        results: rows in order, of every number of threads.
        facts: where and when.
        plots: file names of pictures, relative to the page.
    """
    loads = [r.load for r in results]
    load = f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"
    rows = [r for r in results if r.family in FAMILIES]
    sections = [_summary(rows, facts), *(f"![]({plot})" for plot in plots)]
    for threads in sorted({r.threads for r in rows}):
        for family in FAMILIES:
            some = [r for r in rows if (r.threads, r.family) == (threads, family)]
            if some:
                sections.append(_family(some, facts))
    sections += [
        _compile_times(rows),
        _errors(rows),
        _memory(rows),
        _left_out(rows),
        _not_measured(facts),
    ]
    return PAGE.format(
        title=facts.title,
        cap=CAP,
        machine=facts.machine,
        clock=CLOCK_WORDS[facts.clock],
        load=load,
        versions=_peers(facts),
        sections="\n\n".join(section for section in sections if section),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def shown_time(seconds: float) -> str:
    """Three digits, in the unit that fits."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def best(ratios: dict[str, Ratio]) -> Ratio | None:
    """That of the fastest peer."""
    return min(ratios.values(), key=lambda r: r.value, default=None)


def _peers(facts: Facts) -> str:
    lines = [f"- {name}: {what}" for name, what in facts.versions.items()]
    lines += [f"- {name} is left out: {why}" for name, why in facts.left_out.items()]
    return "\n".join(lines)


def _summary(rows: Sequence[RowResult], facts: Facts) -> str:
    head = ["", "threads", "rows", "against XLA:CPU", "behind", "against the best", "behind"]
    lines: list[list[str]] = []
    for family in FAMILIES:
        for threads in sorted({r.threads for r in rows}):
            some = [r for r in rows if (r.threads, r.family) == (threads, family)]
            if some:
                lines.append([family, str(threads), str(len(some)), *_means(some, facts)])
    return "## Summary\n\nGeometric means.\n\n" + table(head, lines)


def _means(rows: Sequence[RowResult], facts: Facts) -> list[str]:
    every = [r.ratios(facts.clock_of(r.threads)) for r in rows]
    cells: list[str] = []
    for ratios in ([r.get(XLA) for r in every], [best(r) for r in every]):
        known = [r for r in ratios if r is not None]
        mean = capped_geometric_mean(r.value for r in known)
        behind = sum(r.is_behind for r in known)
        cells += ["" if math.isnan(mean) else f"{mean:.2f}", f"{behind} of {len(known)}"]
    return cells


def _family(rows: Sequence[RowResult], facts: Facts) -> str:
    threads = rows[0].threads
    clock = facts.clock_of(threads)
    names = list(dict.fromkeys(n for r in rows for n in r.ratios(clock)))
    lines = [[r.name, _own(r, clock), *_cells(r.ratios(clock), names)] for r in rows]
    title = f"## {rows[0].family.capitalize()}, {threads} thread{'s' * (threads > 1)}"
    clock_name = "CPU" if clock == "cpu" else "wall"
    return f"{title}\n\n" + table(["", f"xladev, {clock_name}", *names, ""], lines)


def _own(result: RowResult, clock: str) -> str:
    ours = result.peers.get(OURS)
    times = ours.times(clock) if ours else []
    return shown_time(statistics.median(times)) if times else "failed"


def _cells(ratios: dict[str, Ratio], names: Sequence[str]) -> list[str]:
    cells = [str(ratios[name]) if name in ratios else "" for name in names]
    behind = [name for name in names if name in ratios and ratios[name].is_behind]
    return [*cells, f"**behind** {', '.join(behind)}" if behind else ""]


def _compile_times(rows: Sequence[RowResult]) -> str:
    """From HLO to what can be run, in a process that has compiled before."""
    lines: list[list[str]] = []
    ratios: list[float] = []
    families: dict[str, list[float]] = {}
    warm: list[float] = []
    for r in _of_fewest_threads(rows):
        ours, xla = (r.peers[n].compile_s if n in r.peers else None for n in (OURS, XLA))
        if ours and xla:
            ratios.append(xla[1] / ours[1])
            families.setdefault(r.family, []).append(ratios[-1])
            times = (ours[0], xla[0], ours[1], xla[1])
            lines.append([r.name, *map(shown_time, times), f"{ratios[-1]:.2f}"])
            again = r.peers[OURS].warm_s
            warm += [xla[1] / again[1]] if again else []
            lines[-1] += [shown_time(again[1]), f"{warm[-1]:.1f}"] if again else ["", ""]
    if not lines:
        return ""
    mean = capped_geometric_mean(ratios)
    head = ["", "xladev wall", "XLA:CPU wall", "xladev CPU", "XLA:CPU CPU", "CPU ratio"]
    head += ["from the cache, CPU", "XLA:CPU's over that"]
    text = (
        "HLO to runnable, CPU time. Cold: the cache on disk had nothing, and procedures that "
        "programs share were compiled with the first row that has them; geometric mean of "
        f"XLA:CPU's over ours: {mean:.2f} ("
        + ", ".join(f"{n} {capped_geometric_mean(some):.2f}" for n, some in families.items())
        + ")."
    )
    if warm:
        text += (
            " From the cache on disk: read and linked, against XLA:CPU's cold compilation; "
            f"geometric mean: {statistics.geometric_mean(warm):.1f}."
        )
    return f"## Compile time\n\n{text}\n\n{table(head, lines)}"


def _errors(rows: Sequence[RowResult]) -> str:
    """Relative errors of all peers, where a reference in extended precision is known."""
    some = [
        r for r in _of_fewest_threads(rows) if any(p.error is not None for p in r.peers.values())
    ]
    if not some:
        return ""
    names = list(dict.fromkeys(n for r in some for n, p in r.peers.items() if p.error is not None))
    lines = [[r.name, *(_shown_error(r, name) for name in names)] for r in some]
    both = [(a, b) for r in some if (a := _error(r, OURS)) and (b := _error(r, XLA))]
    mean = statistics.geometric_mean(a / b for a, b in both) if both else math.nan
    text = (
        "Euclidean norm of the error over that of the result, against the same in 80-bit floats. "
        f"Geometric mean of ours over XLA:CPU's: {mean:.2f}."
    )
    return f"## Errors\n\n{text}\n\n{table(['', *names], lines)}"


def _error(result: RowResult, name: str) -> float | None:
    return result.peers[name].error if name in result.peers else None


def _shown_error(result: RowResult, name: str) -> str:
    error = _error(result, name)
    return "" if error is None else f"{error:.2g}"


def _memory(rows: Sequence[RowResult]) -> str:
    """Arena + results - aliased, and how much more than XLA that is."""
    lines: list[list[str]] = []
    for r in _of_fewest_threads(rows):
        needs = [_needs(r, name) for name in (OURS, XLA)]
        if None in needs:
            continue
        ours, xla = (n or 0 for n in needs)
        over = ours > max(xla * 1.05, xla + 65536)
        peaks = [f"{r.peers[n].memory.get('peak', 0) / 1e6:.0f}" for n in (OURS, XLA)]
        packing = r.peers[OURS].memory.get("packing")
        numbers = ("" if n is None else f"{n:,}" for n in (ours, xla, packing))
        lines.append([r.name, *numbers, "**behind**" if over else "", *peaks])
    if not lines:
        return ""
    head = ["", "xladev", "XLA:CPU", "xladev's packing", "", "xladev's peak, MB",
            "XLA:CPU's peak, MB"]  # fmt: skip
    text = (
        "Bytes: temporaries and results, less results in place of arguments. Packing is what "
        "kernels take beside that for packed operands; XLA's is in no figure of its own. Behind "
        "are rows that need 5% and 64 KiB more than XLA. Peaks are the processes', of all rows "
        "until then."
    )
    return f"## Memory\n\n{text}\n\n{table(head, lines)}"


def _of_fewest_threads(rows: Sequence[RowResult]) -> list[RowResult]:
    fewest = min((r.threads for r in rows), default=0)
    return [r for r in rows if r.threads == fewest]


def _needs(result: RowResult, name: str) -> int | None:
    memory = result.peers[name].memory if name in result.peers else {}
    if "temporary" not in memory:
        return None
    return memory["temporary"] + memory["results"] - memory["aliased"]


def _left_out(rows: Sequence[RowResult]) -> str:
    """Peers that failed at a row, or gave other results; refusals are not listed."""
    lines = [
        f"- {r.name}, {r.threads} threads, {name}: {said}"
        for r in rows
        for name, peer in r.peers.items()
        if (said := _failure(peer))
    ]
    return "## Failures and differences\n\n" + "\n".join(lines) if lines else ""


def _not_measured(facts: Facts) -> str:
    if not facts.not_measured:
        return ""
    return "## Not measured\n\nRows without figures: " + ", ".join(facts.not_measured) + "."


def _failure(peer: PeerResult) -> str:
    if peer.differs:
        return f"differs: {peer.differs}"
    return "" if peer.is_refused else peer.left_out
