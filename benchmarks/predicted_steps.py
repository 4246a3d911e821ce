"""Predicted and measured steps of five programs in processes of this machine, one device each.

    python -m benchmarks.predicted_steps [--processes 2 4] [--transport sockets|mpi]

Calibrates first: the processes measure their own rounds. What a device computes is measured with
silent peers, by all processes at once, which wait for each other at each collective, by turns with
the steps themselves; of all processes the slowest counts. Kernels use one thread. Prints
milliseconds, medians of some means, and predicted over measured; nothing else should run. Where
something does, ``--processor-time`` compares processor time, which tells nothing of waiting.
``--transport mpi`` needs an mpiexec.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import xladev
import xladev.distributed
from benchmarks.predicted_programs import programs
from xladev.compiler.options import CompileOptions
from xladev.profiling.mesh.local_step import Clock, LocalStep, on_device, slowest, timed_s
from xladev.profiling.mesh.network import FULL, Hosts, LinkRates, Network
from xladev.profiling.mesh.prediction import predict
from xladev.profiling.mesh.round_measurement import measure_rounds
from xladev.profiling.mesh.round_times import TransportTimes
from xladev.runtime.distributed.job import current_job
from xladev.testing.random_inputs import random_arguments

STEPS, TURNS = 10, 12
NO_LINK = LinkRates(float("inf"), 0.0)
"""Within a machine: what messages take there is in the times of rounds."""


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--transport", choices=("sockets", "mpi"), default="sockets")
    parser.add_argument("--processor-time", action="store_true", help="in place of time of the day")
    parser.add_argument("--worker", action="store_true", help="one of the processes")
    return parser.parse_args()


def work(transport: str, clock: Clock) -> None:
    """A process of the job; process 0 prints what it measured.

    All measure what one computes at once, so it has its share of processors, caches and memory.
    """
    xladev.distributed.initialize(transport=transport)
    job = current_job()
    assert job is not None
    times = measure_rounds(job, transport, clock=clock)
    everybody = job.transport.channel(b"benchmark", range(job.count))
    computed, measured = {}, {}
    for name, text in programs(job.count).items():
        module = xladev.load(text)
        arguments = random_arguments(module)
        beside = job.transport.channel(b"step of " + name.encode(), range(job.count))
        options = CompileOptions.from_environment()
        silent = LocalStep(module, "cpu", options, arguments, clock, beside)
        program = xladev.compile(module, "cpu")
        given = on_device(program, arguments)
        measure = partial(timed_s, program, given, clock)
        rows = []
        for turn in range(TURNS):
            row = []
            for what, run in (("computed", silent.seconds), ("measured", measure)):
                slowest(everybody, f"{name} {turn} before {what}", 0.0)
                row.append(slowest(everybody, f"{name} {turn} after {what}", run(STEPS)))
            rows.append(row)
        computed[name], measured[name] = (statistics.median(r[i] for r in rows) for i in (0, 1))
        computed[name] -= silent.meetings * times.meeting_s(job.count)
    if job.index == 0:
        said = {"times": times.to_json(), "computed": computed, "steps": measured}
        print(json.dumps(said), flush=True)


def _job(count: int, transport: str) -> dict[str, Any]:
    """What process 0 of a job of workers says."""
    command = [sys.executable, "-m", "benchmarks.predicted_steps", "--worker"]
    command += sys.argv[1:]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if transport == "mpi":
        mpiexec = Path(sys.executable).with_name("mpiexec")
        command = [str(mpiexec), "-n", str(count), *command]
        done = subprocess.run(command, env=said, stdout=subprocess.PIPE, text=True, check=True)
        return dict(json.loads(done.stdout.splitlines()[-1]))
    said |= {
        "XLADEV_COORDINATOR": f"127.0.0.1:{port}", "XLADEV_PROCESSES": str(count),
        "XLADEV_SECRET": xladev.distributed.new_secret(),
    }  # fmt: skip
    children = [
        subprocess.Popen(
            command, env={**said, "XLADEV_PROCESS": str(i)}, stdout=subprocess.PIPE, text=True
        )
        for i in range(count)
    ]
    texts = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise SystemExit("a process failed")
    return dict(json.loads(texts[0].splitlines()[-1]))


def report(count: int, transport: str) -> list[float]:
    """Prints a table for so many processes; predicted over measured, of each program."""
    said = _job(count, transport)
    times = TransportTimes.from_json(said["times"], "a worker")
    ratios = []
    print(f"{count} processes, {times.cores} processors, {transport}", flush=True)
    for name, text in programs(count).items():
        network = Network([count], NO_LINK, FULL, Hosts(times, per_host=count))
        exchange = predict(xladev.load(text), network).exchange_s
        computed, measured = said["computed"][name], said["steps"][name]
        ratios.append((computed + exchange) / measured)
        print(
            f"  {name:28} computed {computed * 1e3:7.2f} ms, exchanged {exchange * 1e3:7.2f} ms, "
            f"predicted {(computed + exchange) * 1e3:7.2f} ms, measured {measured * 1e3:7.2f} ms, "
            f"{ratios[-1]:.2f}",
            flush=True,
        )
    return ratios


def main() -> int:
    """The exit code."""
    arguments = _parsed()
    os.environ.setdefault("XLADEV_NUM_THREADS", "1")
    clock = time.process_time if arguments.processor_time else time.perf_counter
    if arguments.worker:
        work(arguments.transport, clock)
        return 0
    ratios = [r for n in arguments.processes for r in report(n, arguments.transport)]
    most = max(max(r, 1 / r) for r in ratios)
    print(f"{len(ratios)} steps: the worst is off by a factor of {most:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
