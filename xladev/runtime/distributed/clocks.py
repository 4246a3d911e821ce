"""How the clocks of processes differ, by messages that go there and back.

Half of the shortest round trip is how far an answer may be off: D. L. Mills, RFC 5905, section 8.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from xladev.runtime.distributed.job import Job
from xladev.runtime.distributed.transport import Exchange

_ROUNDS = 8
_TIME = struct.Struct("<q")


def clock_offsets(
    job: Job, run: bytes, clock: Callable[[], int] = time.perf_counter_ns
) -> list[tuple[int, int]]:
    """What to add to the clock of each process to have that of process 0, and how sure that is.

    All processes call it.

    Args:
        job: whose processes.
        run: eight bytes that name this call in all of them.
        clock: of this process, in nanoseconds.

    Returns:
        In process 0 for each process the difference and its possible error, in nanoseconds; in
        others nothing.

    Raises:
        ProcessError: a process does not come, or is gone.
    """
    channel = job.transport.channel(b"clocks", range(job.count))
    found = [(0, 0)]
    for other in range(1, job.count):
        best: tuple[int, int] | None = None
        for number in range(_ROUNDS):
            there, back = (Exchange(run, f"{way}{other}.{number}") for way in ("there", "back"))
            if job.index == other:
                channel.exchange(there, {}, [0])
                channel.exchange(back, {0: _TIME.pack(clock())}, [])
            elif job.index == 0:
                start = clock()
                channel.exchange(there, {other: b""}, [])
                answer = channel.exchange(back, {}, [other])[other]
                end = clock()
                (theirs,) = _TIME.unpack(answer)
                half = (end - start + 1) // 2
                if best is None or half < best[1]:
                    best = (start + half - theirs, half)
        if best is not None:
            found.append(best)
    return found if job.index == 0 else []
