"""All-reduces between processes of one machine: sockets beside Gloo, MPI beside mpi4py alone.

    python benchmarks/exchanges.py --processes 2            # with torch: its Gloo
    mpiexec -n 2 python benchmarks/exchanges.py --mpi       # with mpi4py

Both sides take turns in the same processes, so that a busy machine slows both. What is printed are
medians of process 0 in microseconds, and their ratio; below, its geometric mean.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xladev.distributed
from xladev.runtime.distributed.job import current_job
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Exchange

SIZES = (4, 64 << 10, 4 << 20, 256 << 20)
_MOST_S = 6.0
_MOST_TURNS = 400
_LEAST_TURNS = 5
_NUMBERS = iter(range(1 << 40))

Work = Callable[[Any], None]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mpi", action="store_true", help="mpiexec started this")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES")
    return parser.parse_args()


def _gloo() -> Work:
    own = Path(__file__).resolve().parent  # it has a folder called torch
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != own]
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{os.environ['GLOO_PORT']}",
        rank=xladev.distributed.process_index(),
        world_size=xladev.distributed.process_count(),
    )
    return lambda array: dist.all_reduce(torch.from_numpy(array))


def _mpi4py() -> Work:
    from mpi4py import MPI

    return lambda array: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array)


def _ours() -> Work:
    job = current_job()
    assert job is not None
    channel = job.transport.channel(b"benchmark", range(job.count))

    def work(array: Any) -> None:
        run = run_tag(b"benchmark", next(_NUMBERS))
        channel.all_reduce(Exchange(run, "all-reduce"), array, np.add)

    return work


def _barrier(ours: Work) -> Work:
    one = np.zeros(1, np.float32)
    return lambda _: ours(one)


def _timed(work: Work, array: Any, barrier: Work) -> float:
    barrier(array)
    start = time.perf_counter()
    work(array)
    return time.perf_counter() - start


def measure(peer: Work, largest: int) -> Iterator[tuple[int, float, float]]:
    """For each size the medians of both, in seconds."""
    ours = _ours()
    barrier = _barrier(ours)
    for nbytes in (n for n in SIZES if n <= largest):
        array = np.zeros(nbytes // 4, np.float32)
        once = [max(_timed(work, array, barrier) for _ in range(2)) for work in (ours, peer)]
        agreed = np.array([sum(once)], np.float32)
        ours(agreed)  # the same number of turns in all
        turns = int(max(_LEAST_TURNS, min(_MOST_TURNS, _MOST_S / float(agreed[0]))))
        rows = [[_timed(work, array, barrier) for work in (ours, peer)] for _ in range(turns)]
        mine, theirs = (statistics.median(row[side] for row in rows) for side in (0, 1))
        yield nbytes, mine, theirs


def _report(peer: Work, name: str, largest: int) -> None:
    ratios = []
    for nbytes, mine, theirs in measure(peer, largest):
        ratios.append(mine / theirs)
        if xladev.distributed.process_index() == 0:
            print(
                f"{nbytes:>10} bytes: {1e6 * mine:11.1f} us, {name} {1e6 * theirs:11.1f} us, "
                f"{ratios[-1]:.2f}",
                flush=True,
            )
    if xladev.distributed.process_index() == 0:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


def _port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _spawn(count: int) -> int:
    said = {
        "XLADEV_COORDINATOR": f"127.0.0.1:{_port()}", "GLOO_PORT": _port(),
        "XLADEV_PROCESSES": str(count), "XLADEV_SECRET": xladev.distributed.new_secret(),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    command = [sys.executable, str(Path(__file__)), *sys.argv[1:]]
    children = [
        subprocess.Popen(command, env={**os.environ, **said, "XLADEV_PROCESS": str(i)})
        for i in range(count)
    ]
    return max(child.wait() for child in children)


def main() -> int:
    """The exit code."""
    arguments = _parsed()
    if not arguments.mpi and "XLADEV_PROCESS" not in os.environ:
        return _spawn(arguments.processes)
    xladev.distributed.initialize(transport="mpi" if arguments.mpi else "sockets")
    name, peer = ("mpi4py", _mpi4py()) if arguments.mpi else ("Gloo", _gloo())
    _report(peer, name, arguments.largest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
