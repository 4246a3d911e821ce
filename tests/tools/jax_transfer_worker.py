"""A process of `jax.distributed` that puts arrays on devices of other processes, and looks."""

import argparse
import os
import sys
import time
from typing import Any

from xladev.frontends.jax import initialize

initialize()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, SingleDeviceSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

FAILED = 3


def _device(process: int, number: int = 0) -> Any:
    return jax.local_devices(process_index=process)[number]


def _check(array: Any, wanted: Any, process: int) -> None:
    """An array is on that process's devices alone, and what it should be."""
    here = jax.process_index() == process
    assert bool(array.addressable_shards) == here, (process, array)
    for shard in array.addressable_shards:
        found = np.asarray(shard.data)
        assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
        np.testing.assert_array_equal(found, wanted[shard.index])


def types_and_shapes() -> None:
    """Elements of one bit to sixteen bytes, no elements, one, and some megabytes."""
    rng = np.random.default_rng(0)
    row: list[Any] = [
        np.float32(3.5) * np.ones((), np.float32),
        np.zeros((0, 4), np.float32),
        rng.normal(size=(5, 7)).astype(np.complex64),
        rng.integers(0, 2, 9).astype(np.bool_),
        np.asarray(jnp.arange(6, dtype=jnp.bfloat16)),
        np.asarray(jnp.arange(6, dtype=jnp.int4).reshape(2, 3)),
        rng.normal(size=(1 << 20) + 1).astype(np.float32),
    ]
    for host in row:
        there = jax.device_put(jax.device_put(host, _device(0)), _device(1))
        _check(there, host, 1)
        _check(jax.device_put(there, _device(0)), host, 0)


def both_ways_before_either_is_there() -> None:
    """Each process sends what it computes and receives what the other does: nobody waits first."""
    count = jax.process_count()
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda _, y: jnp.cos(y @ y), x))
    given = [jax.device_put(np.eye(64, dtype=np.float32) * p, _device(p)) for p in range(count)]
    with_others = {p: slow(given[p]) for p in [jax.process_index()]}
    moved = []
    for p in range(count):
        own = with_others.get(p)
        own = _absent((64, 64), p) if own is None else own
        moved.append(jax.device_put(own, _device((p + 1) % count)))
    for p, array in enumerate(moved):
        wanted = np.asarray(slow(np.eye(64, dtype=np.float32) * p))
        _check(array, wanted, (p + 1) % count)


def trees_and_results() -> None:
    """Many arrays at once, what a program uses at once, and what is donated."""
    mesh = [
        jax.make_mesh(
            (jax.local_device_count(),), ("x",), devices=jax.local_devices(process_index=p)
        )
        for p in range(2)
    ]
    shardings = [NamedSharding(m, P("x")) for m in mesh]
    tree = {str(i): np.arange(8 * i, dtype=np.int32).reshape(8, i) for i in range(1, 20)}
    there = jax.device_put(jax.device_put(tree, shardings[0]), shardings[1])
    for name, array in there.items():
        _check(array, tree[name], 1)
    if jax.process_index() == 1:
        total = jax.jit(lambda t: sum(a.sum() for a in t.values()))(there)
        assert int(total) == sum(int(a.sum()) for a in tree.values())
    x = jax.device_put(np.arange(6.0, dtype=np.float32), _device(0))
    y = jax.device_put(x, _device(1), donate=True)
    _check(y, np.arange(6.0, dtype=np.float32), 1)


def layouts() -> None:
    """What lies column-major on its device arrives as what it is."""
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = jax.device_put(np.asfortranarray(host), _device(0))
    x = jax.jit(lambda a: a.T + 0)(x).T if jax.process_index() == 0 else _absent((3, 4), 0)
    _check(jax.device_put(x, _device(1)), host, 1)


def failed() -> None:
    """Who disagrees is told; what failed in one process fails where it goes, and nothing else."""
    size = 4 + jax.process_index()  # process 1 expects another array than it is sent
    x = np.arange(4, dtype=np.float32)
    given = jax.device_put(x, _device(0))
    other = _absent((size,), 0) if jax.process_index() else given
    bad, good = (jax.device_put(a, _device(1)) for a in (other, given))
    back = jax.device_put(bad, _device(0))
    _check(good, x, 1)
    if jax.process_index() == 0:
        assert "processes disagree" in _error(back) and "process 1" in _error(back), _error(back)
    elif jax.process_index() == 1:
        assert "processes disagree" in _error(bad) and "process 0" in _error(bad), _error(bad)


def sent_last() -> None:
    """A process may end when it has asked for the last transfer: what it promised goes first."""

    def slept(x: Any) -> Any:
        time.sleep(0.5)
        return x

    x = np.arange(4, dtype=np.float32)
    slow = jax.jit(lambda x: jax.pure_callback(slept, x, x) + 1)
    given = slow(jax.device_put(x, _device(0))) if jax.process_index() == 0 else _absent((4,), 0)
    there = jax.device_put(given, _device(1))
    if jax.process_index() == 1:
        _check(there, x + 1, 1)


def _absent(dims: tuple[int, ...], process: int) -> Any:
    """An array of a device of another process, as this one names it."""
    sharding = SingleDeviceSharding(_device(process))
    return jax.make_array_from_single_device_arrays(dims, sharding, [], dtype=np.float32)


def _error(array: Any) -> str:
    try:
        np.asarray(array.addressable_shards[0].data)
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    return "no error"


def never_sent() -> None:
    """Process 1 waits for what process 0 never sends."""
    if jax.process_index() == 0:
        print("waits", flush=True)
        time.sleep(3600)
    moved = [jax.device_put(_absent((4,), 0), _device(1)) for _ in range(3)]
    print("waits", flush=True)
    for array in moved:
        line = " ".join(["error:", *_error(array).splitlines()])
        sys.stdout.write(line + "\n")  # at once: jaxlib's log goes to the same pipe
        sys.stdout.flush()
    print("said", flush=True)


CASES = (
    types_and_shapes, both_ways_before_either_is_there, trees_and_results, layouts, failed,
    sent_last,
)  # fmt: skip


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--never-sent", action="store_true")
    arguments = parser.parse_args()
    count, index = int(os.environ["XLADEV_PROCESSES"]), int(os.environ["XLADEV_PROCESS"])
    jax.distributed.initialize(os.environ["XLADEV_COORDINATOR"], count, index)
    assert jax.local_devices()[0].client.supports_cross_host_transfers
    if arguments.never_sent:
        never_sent()
        return 0
    for case in CASES:
        case()
        print(case.__name__, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
