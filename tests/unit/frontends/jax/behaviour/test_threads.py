"""JAX on a CPU of several threads: callers in many threads, children of fork, ends in between."""

import pytest

from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long

_BEGIN = """
import os, threading
import numpy as np
from xladev.platforms.cpu.codegen import sharing
sharing.LEAST_NS = sharing.LEAST_PART_NS = 0.0
step = jax.jit(lambda x: jax.nn.softmax(x @ x.T) + jnp.sum(x, axis=0)[:, None].T @ x.T)
x = jnp.asarray(np.random.default_rng(0).random((160, 160), np.float32))
wanted = np.asarray(step(x)).copy()
def call(times):
    return all((np.asarray(step(x)) == wanted).all() for _ in range(times))
"""


def test_eight_callers_get_the_same_bits() -> None:
    out = run_jax(
        _BEGIN
        + """
right = []
threads = [threading.Thread(target=lambda: right.append(call(100))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(200)
print(len(right), all(right), len(os.listdir("/proc/self/task")) > 2)
""",
        XLADEV_NUM_THREADS="3",
    )
    assert out.split() == ["8", "True", "True"]


def test_a_child_of_fork_goes_on_with_threads_of_its_own() -> None:
    out = run_jax(
        _BEGIN
        + """
import warnings
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    os._exit(0 if call(50) else 1)
print(os.waitpid(child, 0)[1], call(50))
""",
        XLADEV_NUM_THREADS="3",
    )
    assert out.split() == ["0", "True"]


def test_a_process_ends_while_kernels_run() -> None:
    """Of its own accord: nothing that was begun is read. (Threads of Python are another matter.)"""
    out = run_jax(
        _BEGIN
        + """
large = jnp.asarray(np.random.default_rng(0).random((1500, 1500), np.float32))
begun = [step(large) for _ in range(8)]
print(call(3))
""",
        XLADEV_NUM_THREADS="3",
    )
    assert out.split() == ["True"]
