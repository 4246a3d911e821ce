"""What must not crash a process: exceptions, threads, exits, forks, memory, in a process each."""

import subprocess

import pytest

from tests.tools.jax_child import environment, jax_python, run_jax

pytestmark = pytest.mark.long

PLATFORMS = ("xladev_cpu", "template_npu")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_buffers_die_while_an_exception_is_in_flight(platform: str) -> None:
    run_jax(
        """
f = jax.jit(lambda x: x * 2)
x = jnp.arange(100.0)
def fails():
    held = [f(x) for _ in range(5)]
    raise KeyError('in flight')
for _ in range(50):
    try:
        fails()
    except KeyError as error:
        assert error.args == ('in flight',)
""",
        platform,
    )


@pytest.mark.parametrize("platform", PLATFORMS)
def test_eight_threads(platform: str) -> None:
    run_jax(
        """
import gc, threading
import numpy as np
f = jax.jit(lambda x: x * 2 + 1)
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + i, x))
x = jnp.arange(64.0)
f(x), loop(x)
wrong = []
def work(number):
    for i in range(40):
        y = loop(f(f(x) + number))
        if i % 10 == 0:
            gc.collect()
            expected = (np.arange(64) * 2 + 1 + number) * 2 + 4
            if np.asarray(y).tolist() != expected.tolist():
                wrong.append(number)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong
""",
        platform,
    )


@pytest.mark.parametrize("platform", PLATFORMS)
def test_exit_with_live_arrays_and_pending_work(platform: str) -> None:
    run_jax(
        """
x = jnp.ones((120, 120))
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, c: c @ c / 120, x))
kept = [loop(x) for _ in range(3)]
jax.debug.callback(lambda v: None, x)
""",
        platform,
    )


_DAEMONS = """
import threading
import jax, jax.numpy as jnp
x = jnp.ones(1000)
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda i, c: c * 0.5 + 1, x))
loop(x).block_until_ready()
begun = threading.Barrier(5)
def spin():
    begun.wait()
    y = x
    while True:
        y = loop(y)
for _ in range(4):
    threading.Thread(target=spin, daemon=True).start()
begun.wait()
"""


def test_exit_does_not_wait_for_daemon_threads() -> None:
    """They may start work for ever. Python ends them within JAX's C++, which may abort."""
    begin = "from xladev.frontends.jax import initialize; initialize()"
    subprocess.run(
        [jax_python(), "-c", begin + _DAEMONS],
        env=environment("xladev_cpu"),
        capture_output=True,
        timeout=120,
    )


def test_failures_poison_what_is_computed_from_them() -> None:
    run_jax(
        """
def fails(x):
    raise ValueError('on purpose')
shape = jax.ShapeDtypeStruct((4,), jnp.float32)
called = lambda x: jax.pure_callback(fails, shape, x)
bad = jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda i, c: called(c), x))
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda i, c: c * 1.5, x))
y = loop(bad(loop(jnp.ones(4)))) + 1
for _ in range(2):
    try:
        y.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        assert 'on purpose' in str(error), error
    else:
        raise SystemExit('nothing was raised')
assert loop(jnp.zeros(4)).tolist() == [0.0] * 4
"""
    )


@pytest.mark.serial
@pytest.mark.parametrize(
    "platform", ["xladev_cpu", pytest.param("template_npu", marks=pytest.mark.rotating)]
)
def test_memory_stays_flat(platform: str) -> None:
    run_jax(
        """
def resident_kb():
    return int(open('/proc/self/statm').read().split()[1]) * 4
f = jax.jit(lambda x, y: (x + y, x * y))
x = jnp.arange(1000.0)
for _ in range(2000):
    f(x, x)
before = resident_kb()
for _ in range(100000):
    f(x, x)
grown = resident_kb() - before
assert grown < 2000, f'{grown} kB'
""",
        platform,
        timeout_s=500,
    )


def test_backend_that_raises_leaves_the_process_usable() -> None:
    run_jax(
        """
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.template_npu.executor import TemplateNpuExecutor
def fails(*_, **__):
    raise ZeroDivisionError('planted')
def expect(call):
    try:
        jax.block_until_ready(call())
    except jax.errors.JaxRuntimeError as error:
        assert 'planted' in str(error), error
    else:
        raise SystemExit('nothing was raised')
x = jnp.arange(4.0)
link, CpuCompiler.link = CpuCompiler.link, fails
expect(lambda: jax.jit(lambda x: x * 3)(x))
CpuCompiler.link = link
assert jax.jit(lambda x: x * 3)(x)[1] == 3
npu = jax.device_put(x, jax.devices('template_npu')[0])
f = jax.jit(lambda x: x * 5)
jax.block_until_ready(f(npu))
launch, TemplateNpuExecutor.launch_kernel = TemplateNpuExecutor.launch_kernel, fails
expect(lambda: f(npu))
TemplateNpuExecutor.launch_kernel = launch
assert f(npu)[1] == 5
""",
        "xladev_cpu,template_npu",
    )
