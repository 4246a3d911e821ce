"""Ctrl-C ends loops of JAX programs, whichever thread runs them, and leaves the device usable."""

import signal
import subprocess

import pytest

from tests.tools.jax_child import BEGIN, environment, jax_python, run_jax

COMMON = """
import os, signal, threading, time
import numpy as np
limit = threading.Timer(100, os._exit, [7])
limit.daemon = True
limit.start()
signal.signal(signal.SIGINT, signal.default_int_handler)

@jax.jit
def turns(n, x):
    return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1]

short, long = np.float32(0.5), np.full(SIZE, 0.5, np.float32)
for x in (short, long):
    turns(3, x).block_until_ready()

def interrupt(wait, x):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    made = None
    try:
        try:
            made = turns(2**31 - 1, x)
            wait(made)
        except jax.errors.JaxRuntimeError:
            time.sleep(60)  # where the KeyboardInterrupt that is on its way comes
    except KeyboardInterrupt:
        pass
    try:
        if made is not None:
            np.asarray(made)
    except jax.errors.JaxRuntimeError as error:
        return "INTERRUPTED" in str(error)
    return made is None
"""

CHECK = """
for x in (short, long):
    for wait in (lambda y: y.block_until_ready(), np.asarray, lambda y: float(y.ravel()[0])):
        print(interrupt(wait, x), np.allclose(turns(2, x), np.sin(np.sin(x))), flush=True)
os._exit(0)
"""

HANDLERS = """
seen = []
class Enough(Exception): pass
def handler(number, frame):
    seen.append(number)
    if len(seen) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Enough("third", 3)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
try:
    turns(2**31 - 1, short).block_until_ready()
except Enough as error:
    print(error.args, len(seen), flush=True)
print(np.allclose(turns(2, short), np.sin(np.sin(short))), flush=True)
os._exit(0)
"""

EXIT = """
pending = [turns(2**31 - 1, long) for _ in range(3)]
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
pending[0].block_until_ready()
"""


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu", "interpreter"])
def test_ctrl_c_ends_loops(platform: str) -> None:
    """Short programs run where they are called, long ones in a thread of the device."""
    size = 5_000_000 if platform == "xladev_cpu" else 20_000
    found = run_jax(COMMON.replace("SIZE", str(size)) + CHECK, platform)
    assert found.split() == ["True"] * 12


def test_a_handler_that_does_not_raise_lets_the_loop_go_on() -> None:
    found = run_jax(COMMON.replace("SIZE", "4") + HANDLERS)
    assert found.splitlines() == ["('third', 3) 3", "True"]


def test_a_process_that_ctrl_c_ends_does_not_wait_for_its_loops() -> None:
    """Neither for the one that runs nor for those that are still to run."""
    code = f"{BEGIN}{COMMON.replace('SIZE', '5000000')}{EXIT}"
    done = subprocess.run(
        [jax_python(), "-c", code], env=environment("xladev_cpu"), capture_output=True, text=True,
        timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "KeyboardInterrupt" in done.stderr
