"""Measures the CPU backend against its peers: ``python -m benchmarks.cpu``.

Rows that were measured before are kept (``--fresh`` measures them again), so a run that was cut
off goes on where it stopped. Without rows left to measure, the page is written again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cpu.machine import machine
from benchmarks.cpu.measure import Bench, Peers, Plan
from benchmarks.cpu.peer import PeerSpec
from benchmarks.cpu.plot import bars, lines
from benchmarks.cpu.report import TITLE, Facts, page
from benchmarks.cpu.results import BEFORE, OURS, XLA, RowResult, Store, kept_peers
from benchmarks.cpu.rows import FAMILIES, Row, chosen, read_rows, read_sweeps

_MODULES = "benchmarks.cpu.peers"
_PLAN = Plan()


def peer_specs(options: argparse.Namespace) -> list[PeerSpec]:
    """All peers, XLA first because it makes the HLO of rows that are functions."""
    torch, onnx = options.torch_python, options.onnx_python or options.torch_python
    mkl = options.mkl_python or options.torch_python
    before = [PeerSpec(BEFORE, sys.executable, (f"{_MODULES}.xladev_peer",), options.before)]
    return [
        PeerSpec(XLA, options.jax_python, (f"{_MODULES}.jax_peer",)),
        PeerSpec(OURS, sys.executable, (f"{_MODULES}.xladev_peer",)),
        PeerSpec("NumPy", sys.executable, (f"{_MODULES}.numpy_peer",)),
        PeerSpec("SciPy", sys.executable, (f"{_MODULES}.scipy_peer",)),
        PeerSpec("PyTorch", torch, (f"{_MODULES}.torch_peer", "eager")),
        PeerSpec("torch.compile", torch, (f"{_MODULES}.torch_peer", "compile")),
        PeerSpec("ONNX Runtime", onnx, (f"{_MODULES}.onnx_peer",)),
        PeerSpec("MKL", mkl, (f"{_MODULES}.mkl_peer",)),
        *(before if options.before else []),
    ]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.cpu", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--jax-python", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--torch-python", default=sys.executable, help="one that has torch")
    parser.add_argument("--onnx-python", help="one that has onnx and onnxruntime; default: torch's")
    parser.add_argument("--mkl-python", help="one that has the wheel mkl; default: torch's")
    parser.add_argument(
        "--before", type=Path, help="another checkout of xladev, measured as one more peer"
    )
    parser.add_argument("--peers", default="", help="only these, by name, separated by commas")
    parser.add_argument("--programs", type=Path, help="folder of the rows that are files")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--rows", default="", help="a regular expression; default: all")
    parser.add_argument("--sweeps", action="store_true", help="time against size, too")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--clock", choices=("auto", "cpu", "wall"), default="auto")
    parser.add_argument("--rounds", type=int, default=_PLAN.rounds)
    parser.add_argument("--slice-s", type=float, default=_PLAN.slice_s)
    parser.add_argument("--row-s", type=float, default=_PLAN.row_s)
    parser.add_argument("--timeout-s", type=float, default=_PLAN.timeout_s)
    parser.add_argument("--work", type=Path, default=Path("build/benchmarks-cpu"))
    parser.add_argument("--only-write", action="store_true", help="measure nothing")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--write", type=Path, help="the page to write; plots go beside it")
    parser.add_argument("--title", default=TITLE, help="of the page")
    return parser.parse_args(arguments)


def wanted_rows(options: argparse.Namespace) -> list[Row]:
    """Rows of the chosen families, then those of sweeps."""
    rows = chosen(read_rows(), options.families.split(","), options.rows)
    return rows + (chosen(read_sweeps(), ("sweep",), options.rows) if options.sweeps else [])


def measure_all(
    rows: Sequence[Row], options: argparse.Namespace, store: Store
) -> tuple[dict[str, str], dict[str, str]]:
    """Measures what is not known yet; versions of the peers, and why some are left out."""
    plan = Plan(options.rounds, options.slice_s, options.row_s, options.timeout_s)
    bench = Bench(options.work, options.programs, plan)
    names = [name for name in options.peers.split(",") if name]
    specs = [s for s in peer_specs(options) if not names or s.name in names]
    versions, left_out = dict[str, str](), dict[str, str]()
    for threads in map(int, options.threads.split(",")):
        missing = [row for row in rows if store.load(row, threads) is None]
        peers = Peers(specs, threads, options.work, options.timeout_s)
        try:
            for number, row in enumerate(missing, 1):
                result = bench.measure(row, peers)
                store.save(row, result)
                print(f"[{number}/{len(missing)}] {summary(result)}", file=sys.stderr, flush=True)
        finally:
            peers.close()
        versions |= peers.versions
        left_out |= peers.left_out
    return versions, left_out


def summary(result: RowResult) -> str:
    """A row in one line."""
    parts = [f"{result.name}, {result.threads} threads:"]
    for name, peer in result.peers.items():
        if peer.wall:
            cpu, wall = (statistics.median(t) * 1e6 for t in (peer.cpu, peer.wall))
            parts.append(f"{name} {cpu:.1f}/{wall:.1f}")
        elif not peer.is_refused:
            parts.append(f"{name} {peer.left_out[:120]}")
    return " ".join(parts) + " us CPU/wall"


def write(results: Sequence[RowResult], facts: Facts, target: Path) -> None:
    """The page, its pictures, and all figures as JSON beside it."""
    stem = target.with_suffix("")
    plots: list[str] = []
    for threads in sorted({r.threads for r in results}):
        pictures = {f"ratios-{threads}": _ratio_picture(results, facts, threads)}
        pictures |= _sweep_pictures(results, facts, threads)
        for name, picture in pictures.items():
            path = stem.with_name(f"{stem.name}-{name}.svg")
            path.write_text(picture)
            plots.append(path.name)
    target.write_text(page(results, facts, plots))
    data = {"facts": facts.machine, "rows": [json.loads(r.to_json()) for r in results]}
    stem.with_suffix(".json").write_text(json.dumps(data) + "\n")


def _ratio_picture(results: Sequence[RowResult], facts: Facts, threads: int) -> str:
    clock = facts.clock_of(threads)
    against = {
        r.name: ratios[XLA]
        for r in results
        if r.threads == threads and r.family in FAMILIES and XLA in (ratios := r.ratios(clock))
    }
    return bars(f"XLA:CPU's time over xladev's, {threads} thread(s)", against)


def _sweep_pictures(results: Sequence[RowResult], facts: Facts, threads: int) -> dict[str, str]:
    """One for each sweep; the size is the product of the numbers in a row's name."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for r in results:
        if r.family != "sweep" or r.threads != threads:
            continue
        kind, _, size = r.name.partition(" ")
        number = 1.0
        for part in size.split("x"):
            number *= float(part)
        for name, peer in r.peers.items():
            if times := peer.times(facts.clock_of(threads)):
                point = number, statistics.median(times)
                found.setdefault(kind, {}).setdefault(name, []).append(point)
    return {
        f"{kind}-{threads}": lines(f"{kind}: seconds by size, {threads} thread(s)", series)
        for kind, series in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes."""
    options = parsed(arguments)
    if options.fresh:
        shutil.rmtree(options.work / "rows", ignore_errors=True)
    store = Store(options.work / "rows")
    rows = wanted_rows(options)
    nothing = dict[str, str](), dict[str, str]()
    versions, left_out = nothing if options.only_write else measure_all(rows, options, store)
    versions, left_out = kept_peers(options.work, versions, left_out)
    loaded = [store.load(row, int(t)) for t in options.threads.split(",") for row in rows]
    results = [result for result in loaded if result is not None]
    named = {result.name for result in results}
    not_measured = tuple(row.name for row in rows if row.name not in named)
    timed = {name for r in results for name, peer in r.peers.items() if peer.wall}
    left_out |= dict.fromkeys(versions.keys() - timed, "it took part in none of these rows")
    versions = {name: said for name, said in versions.items() if name in timed}
    facts = Facts(machine(), versions, left_out, not_measured, options.clock, options.title)
    if options.write:
        write(results, facts, options.write)
    else:
        print(page(results, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
