"""Programs of several devices run by native code alone, and by Python where that is taken."""

import pytest

from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long

COMMON = """
import threading
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from xladev.frontends.jax import program
by_python = []
execute = program.JaxProgram.execute
def noted(self, *arguments):
    by_python.extend(() if len(self.rows[0]) == 1 else [self.compiled])
    return execute(self, *arguments)
program.JaxProgram.execute = noted
mesh = Mesh(np.array(jax.devices()), ("x",))
cut = NamedSharding(mesh, P("x"))
def shown(rows, columns):
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) / (rows * columns)
"""


@pytest.mark.parametrize("rows", [8, 4096], ids=["tiny", "large"])
def test_python_has_no_part_in_it(rows: int) -> None:
    run_jax(
        f"""{COMMON}
a = shown({rows}, 64)
x = jax.device_put(a, cut)
for _ in range(3):
    y = jax.jit(lambda x: x * 2 + 1)(x)
    assert np.array_equal(y, a * 2 + 1)
    z = jax.jit(lambda x: x - x.mean(0))(x)
    np.testing.assert_allclose(z, a - a.mean(0), atol=1e-4)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda i, v: v + v.sum(0) * 1e-4, x))
    np.testing.assert_allclose(loop(x), jax.jit(loop)(jnp.asarray(a)), rtol=1e-5)
taken = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
assert x.is_deleted() and np.array_equal(taken, a + 1)
assert not by_python, by_python
""",
        JAX_NUM_CPU_DEVICES="8",
    )


def test_threads_that_call_one_program_at_once_get_results_of_their_own() -> None:
    run_jax(
        f"""{COMMON}
run = jax.jit(lambda x: x / jnp.abs(x).sum())
rows = [shown(64, 32) + n for n in range(6)]
xs = [jax.device_put(a, cut) for a in rows]
run(xs[0])
wrong = []
def many(n):
    for _ in range(60):
        if not np.allclose(run(xs[n]), rows[n] / np.abs(rows[n]).sum(), rtol=1e-4):
            wrong.append(n)
threads = [threading.Thread(target=many, args=[n]) for n in range(6)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong, wrong
""",
        JAX_NUM_CPU_DEVICES="8",
    )


def test_ctrl_c_ends_loops_of_all_devices_and_the_next_launch_is_whole() -> None:
    run_jax(
        f"""{COMMON}
import os, signal
limit = threading.Timer(150, os._exit, [7])
limit.daemon = True
limit.start()
signal.signal(signal.SIGINT, signal.default_int_handler)
@jax.jit
def turns(n, x):
    def more(s):
        return s[0] + 1, s[1] - s[1].sum() * 1e-6
    return jax.lax.while_loop(lambda s: s[0] < n, more, (0, x))[1]
a = shown(64, 32)
x = jax.device_put(a, cut)
expected = np.asarray(turns(2, x))
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
made = None
try:
    made = turns(2**31 - 1, x)
    try:
        made.block_until_ready()
    except jax.errors.JaxRuntimeError:
        import time
        time.sleep(60)
except KeyboardInterrupt:
    pass
assert made is not None
try:
    np.asarray(made)
except jax.errors.JaxRuntimeError as error:
    assert "INTERRUPTED" in str(error), error
else:
    raise SystemExit("the loop ended by itself")
assert np.array_equal(turns(2, x), expected)
assert not by_python, by_python
""",
        JAX_NUM_CPU_DEVICES="4",
    )


def test_a_child_of_fork_runs_programs_of_several_devices() -> None:
    run_jax(
        f"""{COMMON}
import os
run = jax.jit(lambda x: x - x.mean(0))
a = shown(4096, 64)
x = jax.device_put(a, cut)
expected = np.asarray(run(x))
child = os.fork()
if not child:
    os._exit(0 if np.array_equal(run(x), expected) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.array_equal(run(x), expected)
""",
        JAX_NUM_CPU_DEVICES="4",
    )
