"""xladev beside XLA:GPU, torch, torch.compile, CuPy: `python -m benchmarks.gpu_peers`, one table.

Each framework runs alone in a process of its own, on the same numbers; xladev compiles the very HLO
that JAX gave to XLA. Shares are of what this run saw: the fastest copy, the fastest product. The
whole takes at most ``--budget`` seconds; what did not fit is said. ``--cpu --small`` tries it
without a GPU: a test of these files, not a measurement.

Wheels to carry to a machine without an index: xladev, xladev-cuda, cupy-cuda13x, llvmlite, numpy,
ml_dtypes, pluggy, cuda-pathfinder, nvidia-cublas, nvidia-cufft, nvidia-cusolver,
nvidia-nvjitlink, nvidia-cuda-nvrtc==13.0.*, nvidia-cuda-nvcc; of the peers jax[cuda13] and torch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu_child import PEERS
from benchmarks.gpu_workloads import Workload, workloads

Rows = dict[str, dict[str, dict[str, Any]]]
PYTHON_VARIABLE = "XLADEV_BENCH_PYTHON_{}"
"""Another Python for a peer, such as XLADEV_BENCH_PYTHON_JAX."""


def run_peer(
    peer: str, folder: Path, budget_s: float, small: bool, on_cpu: bool, wanted: list[str]
) -> tuple[str, dict[str, dict[str, Any]]]:
    """Its version, or why it did not run; and its rows."""
    variable = PYTHON_VARIABLE.format(peer.upper().replace(".", "_"))
    python = os.environ.get(variable, sys.executable)
    command = [
        python, "-m", "benchmarks.gpu_child", peer, str(folder), str(int(small)),
        str(int(on_cpu)), *wanted,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(budget_s, 1))
        output, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        output, errors = _text(e.stdout), f"stopped after {budget_s:.0f} s"
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if not lines:
        return f"did not run: {errors.strip().splitlines()[-1] if errors.strip() else '?'}", {}
    return lines[0]["version"], {line["row"]: line for line in lines[1:]}


def _text(output: bytes | str | None) -> str:
    return output.decode() if isinstance(output, bytes) else output or ""


def table(rows: Rows, small: bool) -> list[str]:
    """Lines: milliseconds by peer, the share of the roof, and how far results are apart."""
    found = workloads(small)
    copied = _rate(rows, found, "copy_f32", lambda w: w.nbytes)
    multiplied = _rate(rows, found, "product_bf16", lambda w: w.flops)
    lines = [f"{'ROW':16}" + "".join(f"{p:>14}" for p in PEERS) + "  OF ROOF  xd/XLA  APART"]
    ratios = []
    for w in found:
        times = {p: rows[p][w.name]["ms"] for p in PEERS if "ms" in rows[p].get(w.name, {})}
        cells = "".join(f"{times[p]:14.4f}" if p in times else f"{'-':>14}" for p in PEERS)
        own, xla = times.get("xladev"), times.get("jax")
        roof_ms = max(_ms(w.nbytes, copied), _ms(w.flops, multiplied))
        share = f"{roof_ms / own:8.0%}" if own and roof_ms else f"{'':8}"
        ratio = f"{own / xla:7.2f}" if own and xla else f"{'':7}"
        if own and xla:
            ratios.append(own / xla)
        lines.append(f"{w.name:16}{cells} {share} {ratio} {_apart(rows, w.name):8.1e}")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"geometric mean xladev / XLA over {len(ratios)} rows: {mean:.3f}")
    lines.append(f"roofs seen: {copied * 1e-9:.1f} TB/s copied, {multiplied * 1e-9:.1f} TFLOP/s")
    return lines


def _rate(rows: Rows, found: list[Workload], name: str, amount: Any) -> float:
    """The most bytes or operations in a millisecond that any peer reached in a row."""
    times = [r[name]["ms"] for r in rows.values() if "ms" in r.get(name, {})]
    w = next(w for w in found if w.name == name)
    return amount(w) / min(times) if times else 0.0


def _ms(amount: int, rate: float) -> float:
    return amount / rate if rate else 0.0


def _apart(rows: Rows, name: str) -> float:
    """The largest difference of xladev's sample from JAX's, relative to the largest number."""
    both = [rows[p].get(name, {}).get("sample") for p in ("xladev", "jax")]
    if not all(both):
        return math.nan
    scale = max(map(abs, both[1])) or 1.0
    return max(abs(x - y) for x, y in zip(*both, strict=True)) / scale


def main() -> None:
    """Runs all peers and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=560, help="seconds in all")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--only", nargs="*", default=[], help="names of rows")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path, help="write all rows here")
    report(parser.parse_args())


def report(a: argparse.Namespace) -> None:
    """Runs the peers that the arguments of `main` name, and prints the table."""
    end = time.monotonic() + a.budget
    rows: Rows = {p: {} for p in PEERS}
    versions = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, peer in enumerate(a.peers):
            left = (end - time.monotonic()) / (len(a.peers) - n) * (2 if n < 2 else 1)
            left = min(left, end - time.monotonic())
            versions[peer], rows[peer] = run_peer(peer, Path(folder), left, a.small, a.cpu, a.only)
            print(f"{peer}: {versions[peer]}, {len(rows[peer])} rows", flush=True)
    print("\n".join(table(rows, a.small)))
    for peer, found in rows.items():
        for name, row in found.items():
            if "failed" in row:
                print(f"failed: {peer} {name}: {row['failed']}")
    if a.json:
        a.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
