"""A process of a job: joins it, runs all-reduces of random sizes after random delays, checks them.

It prints a line for each hundredth run, or for each if asked; at the end how many sockets it has
left.
"""

import argparse
import os
import random
import sys
import time
from contextlib import nullcontext

import numpy as np

import xladev
import xladev.distributed
from tests.tools.plugins import emulated_cuda
from xladev.errors import XladevError
from xladev.runtime.distributed import handshake, listener, meeting
from xladev.runtime.distributed.job import current_job

SIZES = (1, 7, 1000, 20_000, 300_000)
FAILED = 3

_TEXT = """HloModule {name}, replica_count={count}
add {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}}
ENTRY e {{
  p = s32[{size}] parameter(0)
  q = s32[{size}] all-reduce(p), to_apply=add, replica_groups={{}}
  ROOT r = s32[{size}] {last}
}}"""


def sockets() -> int:
    """How many sockets this process has open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return count


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--largest", type=int, default=len(SIZES), help="of the sizes")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--each", action="store_true", help="a line for each run")
    parser.add_argument("--name", default="m")
    parser.add_argument("--last", default="copy(q)", help="what becomes of the sum")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--sent", action="store_true", help="how much messages carried, in bytes")
    parser.add_argument("--version", help="what this process says that it is")
    parser.add_argument("--start-timeout", type=float, default=20.0)
    parser.add_argument("--pause-before", type=int, default=-1, help="sleep before that run")
    return parser.parse_args()


def work(arguments: argparse.Namespace) -> None:
    """Joins and runs."""
    xladev.distributed.initialize(start_timeout_s=arguments.start_timeout)
    index, count = xladev.distributed.process_index(), xladev.distributed.process_count()
    sizes = SIZES[: arguments.largest]
    programs = {
        n: xladev.compile(
            _TEXT.format(name=arguments.name, count=count, size=n, last=arguments.last).encode(),
            arguments.backend,
        )
        for n in sizes
    }
    shared, own = random.Random(0), random.Random(index)
    for run in range(arguments.runs):
        size, base = shared.choice(sizes), shared.randrange(1000)
        if run == arguments.pause_before:
            print("paused", flush=True)
            time.sleep(3600)
        if arguments.delay_ms:
            time.sleep(own.random() * arguments.delay_ms / 1e3)
        given = np.arange(size, dtype=np.int32) + base * (index + 1)
        (result,) = programs[size].run_on_devices([[given]])
        want = np.arange(size, dtype=np.int32) * count + base * count * (count + 1) // 2
        np.testing.assert_array_equal(np.asarray(result), want)
        if arguments.each or run % 100 == 99:
            print(f"run {run}", flush=True)
    job = current_job()
    if arguments.sent and job is not None:
        print(f"sent {sum(job.transport.sent_nbytes.values())}", flush=True)


def main() -> int:
    """The exit code."""
    arguments = _parsed()
    if arguments.version:
        for module in (handshake, listener, meeting):
            module.__version__ = arguments.version
    code = 0
    found = emulated_cuda() if arguments.backend == "cuda_emu" else nullcontext()
    try:
        with found:
            work(arguments)
    except XladevError as error:
        print(f"error: {error}", flush=True)
        code = FAILED
    xladev.distributed.shutdown()
    print(f"sockets {sockets()}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
