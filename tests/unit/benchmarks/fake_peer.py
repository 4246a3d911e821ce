"""A peer for tests: doubles its argument, or misbehaves as the command line says."""

import os
import signal
import sys
import time
from typing import Any

from benchmarks.cpu.child import Job, Prepared, Refused, serve
from benchmarks.cpu.wire import Array

MODE = sys.argv[1]


class Fake:
    """Modes: well, slow, wrong, refuse, raise, crash, exit, hang, missing."""

    def __init__(self) -> None:
        if MODE == "missing":
            raise ImportError("no such library")
        print("a library that prints")

    def versions(self) -> dict[str, str]:
        return {"fake": "1.0"}

    def prepare(self, job: Job) -> Prepared:
        if MODE == "refuse":
            raise Refused("not this row")
        if MODE == "raise":
            raise ValueError("it went wrong")
        calls = 0

        def call() -> list[Array]:
            nonlocal calls
            calls += 1
            _misbehave(calls)
            return [a * (3 if MODE == "wrong" else 2) for a in job.inputs]

        memory = {"temporary": 7, "results": 4, "aliased": 1}
        return Prepared(call, lambda kept: list(kept), memory, (0.5, 0.25))


def _misbehave(calls: int) -> Any:
    if MODE == "slow":
        time.sleep(0.005)
    if calls < 200:
        return
    if MODE == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if MODE == "exit":
        os._exit(3)
    if MODE == "hang":
        time.sleep(60)


if __name__ == "__main__":
    serve(Fake)
