"""Process-CPU time of one jitted call: an xladev platform beside JAX's own CPU, interleaved.

    python benchmarks/jax_dispatch.py [--platform xladev_cpu] [--calls 5000] [--rounds 9]

Prints microseconds per call, the median of rounds, and the ratio. Needs jax and xladev-pjrt.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CASES = ("one scalar", "5 in, 3 out")
Call = Callable[[], Any]


def make_calls(jax: Any, device: Any) -> dict[str, Call]:
    """A call of each case, with arguments on a device, compiled."""
    numbers = [jax.device_put(float(i), device) for i in range(5)]
    vectors = [jax.device_put(np.full(8, i, np.float32), device) for i in range(5)]
    one = jax.jit(lambda x: x + 1)
    many = jax.jit(lambda a, b, c, d, e: (a + b, c * d, e - a))
    calls: dict[str, Call] = {
        CASES[0]: lambda: one(numbers[0]),
        CASES[1]: lambda: many(*vectors),
    }
    for call in calls.values():
        jax.block_until_ready(call())
    return calls


def cpu_us(jax: Any, call: Call, count: int) -> float:
    """Microseconds of processor time of one call."""
    start = time.process_time()
    for _ in range(count):
        result = call()
    jax.block_until_ready(result)
    return (time.process_time() - start) / count * 1e6


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--platform", default="xladev_cpu")
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = f"{given.platform},cpu"
    import jax

    names = (given.platform, "cpu")
    calls = {name: make_calls(jax, jax.devices(name)[0]) for name in names}
    for case in CASES:
        seen: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(given.rounds):
            for name in names:
                seen[name].append(cpu_us(jax, calls[name][case], given.calls))
        ours, own = (statistics.median(seen[name]) for name in names)
        print(
            f"{case:12} {given.platform} {ours:6.2f} us  cpu {own:6.2f} us  ratio {ours / own:.2f}"
        )


if __name__ == "__main__":
    main()
