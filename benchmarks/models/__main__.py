"""Measures whole models on the CPU against its peers: ``python -m benchmarks.models``.

    python -m benchmarks.models --torch-python T --jax-python J --budget-s 1800

Each row runs with fresh processes, so that their peaks of memory are its own. Rows that were
measured before are kept (``--fresh`` measures them again); a run that was cut off, or whose budget
of seconds was spent, goes on where it stopped. Weights are arguments of the HLO or constants of it;
in the peers' files they are constants always, where they may be packed beforehand.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cpu.__main__ import summary
from benchmarks.cpu.machine import machine
from benchmarks.cpu.measure import Peers, Plan
from benchmarks.cpu.peer import PeerSpec
from benchmarks.cpu.report import Facts
from benchmarks.cpu.results import OURS, XLA, Store, kept_peers
from benchmarks.cpu.rows import Row, chosen
from benchmarks.models import first_calls
from benchmarks.models.model_report import page
from benchmarks.models.model_rows import Converter, ModelBench, model_rows
from benchmarks.models.weights_read import COPY

_CPU, _MODELS = "benchmarks.cpu.peers", "benchmarks.models.peers"


def peer_specs(options: argparse.Namespace) -> list[PeerSpec]:
    """All peers."""
    torch, onnx = options.torch_python, options.onnx_python or options.torch_python
    return [
        PeerSpec(XLA, options.jax_python, (f"{_CPU}.jax_peer",)),
        PeerSpec(OURS, sys.executable, (f"{_CPU}.xladev_peer",)),
        PeerSpec("PyTorch", torch, (f"{_MODELS}.torch_peer", "eager")),
        PeerSpec("torch.compile", torch, (f"{_MODELS}.torch_peer", "compile")),
        PeerSpec("torch.compile, frozen", torch, (f"{_MODELS}.torch_peer", "freeze")),
        PeerSpec("ONNX Runtime", onnx, (f"{_MODELS}.onnx_peer",)),
        PeerSpec(COPY, sys.executable, (f"{_MODELS}.copy_peer",)),
        PeerSpec("OpenVINO", onnx, (f"{_MODELS}.openvino_peer",)),
    ]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--jax-python", default=sys.executable, help="a Python that has jax")
    add(
        "--torch-python",
        default=sys.executable,
        help="torch, transformers, onnxscript",
    )
    add("--onnx-python", help="onnxruntime and openvino; default: torch's")
    add("--peers", default="", help="only these, by name, separated by semicolons")
    add("--rows", default="", help="a regular expression; default: all")
    add("--batches", default="1,8")
    add("--threads", default="1,2")
    add("--clock", choices=("auto", "cpu", "wall"), default="wall")
    add("--rounds", type=int, default=15)
    add("--slice-s", type=float, default=0.1)
    add("--row-s", type=float, default=6.0)
    add("--timeout-s", type=float, default=600.0)
    add("--budget-s", type=float, default=float("inf"), help="no row begins after so long")
    add("--work", type=Path, default=Path("build/benchmarks-models"))
    add("--only-write", action="store_true", help="measure nothing")
    add("--fresh", action="store_true", help="forget what was measured before")
    add("--write", type=Path, help="the page to write")
    return parser.parse_args(arguments)


def measure_all(
    rows: Sequence[Row], options: argparse.Namespace, converter: Converter, store: Store
) -> dict[str, str]:
    """Measures what is not known yet; versions of the peers."""
    names = [name for name in options.peers.split(";") if name]
    specs = [s for s in peer_specs(options) if not names or s.name in names]
    plan = Plan(options.rounds, options.slice_s, options.row_s, options.timeout_s)
    bench = ModelBench(options.work, converter, plan)
    versions, end = dict[str, str](), time.monotonic() + options.budget_s
    for row in rows:
        for threads in map(int, options.threads.split(",")):
            if store.load(row, threads) is not None:
                continue
            if time.monotonic() > end:
                return versions
            peers = Peers(specs, threads, options.work, options.timeout_s)
            try:
                result = bench.measure(row, peers)
            finally:
                peers.close()
            versions |= peers.versions
            store.save(row, result)
            print(summary(result), file=sys.stderr, flush=True)
    return versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and writes."""
    options = parsed(arguments)
    if options.fresh:
        shutil.rmtree(options.work / "rows", ignore_errors=True)
    store = Store(options.work / "rows")
    converter = Converter(options.torch_python, options.work / "models")
    batches = [int(batch) for batch in options.batches.split(",")]
    rows = chosen(model_rows(converter.networks(), batches), ("models",), options.rows)
    versions = {} if options.only_write else measure_all(rows, options, converter, store)
    versions, _ = kept_peers(options.work, versions, {})
    threads = [int(each) for each in options.threads.split(",")]
    loaded = [store.load(row, each) for row in rows for each in threads]
    results = [result for result in loaded if result is not None]
    named = {result.name for result in results}
    missing = tuple(row.name for row in rows if row.name not in named)
    facts = Facts(machine(), versions, {}, missing, options.clock)
    text = page(results, facts, first_calls.section(options.work, rows))
    if options.write:
        options.write.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
