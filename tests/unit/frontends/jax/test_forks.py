"""Children of fork: the CPU goes on, and what they cannot do is an error, never a wait."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.tools.jax_child import run_jax
from xladev.errors import CompileError, DeviceError
from xladev.frontends.jax import forks

_FORK = """
import os, signal, warnings
import numpy as np
warnings.simplefilter('ignore')
def in_child(work, status=0):
    child = os.fork()
    if not child:
        signal.alarm(30)
        work()
        raise SystemExit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
x = jnp.ones((50, 50))
f = jax.jit(lambda x: x * 2)
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, c: c @ c / 50, x))
loop(x).block_until_ready(), f(x).block_until_ready()
"""


@pytest.mark.long
def test_child_runs_what_is_compiled_and_exits() -> None:
    run_jax(
        _FORK
        + """
def runs():
    assert (np.asarray(f(x))[0, 0], np.asarray(loop(x))[0, 0]) == (2, 1)
in_child(runs, 7)
"""
    )


@pytest.mark.long
def test_what_the_parent_was_computing_fails_in_the_child() -> None:
    run_jax(
        _FORK
        + """
slow = jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda i, c: c @ c / 300, x))
big = jnp.ones((300, 300))
slow(big).block_until_ready()
pending = slow(big)
after = slow(pending)
def read():
    for array in (pending, after):
        for wait in (array.block_until_ready, lambda: np.asarray(array)):
            try:
                wait()
            except jax.errors.JaxRuntimeError as error:
                assert 'forked while' in str(error), error
            else:
                raise SystemExit('the child read what the parent had not computed')
    assert np.asarray(loop(x))[0, 0] == 1
in_child(read)
assert np.asarray(after)[0, 0] == 1
"""
    )


# Preloaded: threads wait before they lock within the shim, so that others run between their steps.
_SLOW_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*lock)(pthread_mutex_t *);
    if (!lock) lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    Dl_info caller;
    if (gettid() != getpid() && dladdr(__builtin_return_address(0), &caller) &&
        strstr(caller.dli_fname, "xladev"))
        usleep(5000);
    return lock(mutex);
}
"""


@pytest.mark.long
def test_child_leaves_alone_what_a_lost_thread_has_freed(tmp_path: Path) -> None:
    preloaded = tmp_path / "slow_locks.so"
    build = ["cc", "-shared", "-fPIC", "-xc", "-", "-o", preloaded, "-ldl"]
    subprocess.run(build, input=_SLOW_LOCKS, text=True, check=True)
    run_jax(
        _FORK
        + """
slow = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, c: c @ c / 300, x))
big = jnp.ones((300, 300))
for _ in range(5):
    slow(big).block_until_ready()
    in_child(lambda: None)
""",
        LD_PRELOAD=str(preloaded),
        GLIBC_TUNABLES="glibc.malloc.tcache_count=0",
        MALLOC_PERTURB_="1",
    )


@pytest.mark.long
def test_child_compiles_or_is_told_why_not() -> None:
    run_jax(
        _FORK
        + """
def compiles():
    try:
        assert np.asarray(jax.jit(lambda x: x * 3)(x))[0, 0] == 3
    except Exception as error:
        assert 'a child of fork cannot compile' in str(error), error
in_child(compiles)
"""
    )


@pytest.mark.long
def test_child_is_told_that_a_device_stayed_with_the_parent() -> None:
    run_jax(
        _FORK
        + """
def runs():
    for use in (lambda: f(x).block_until_ready(), lambda: jax.device_put(np.ones(3))):
        try:
            use()
        except Exception as error:
            assert 'parent' in str(error), error
        else:
            raise SystemExit('the child used the device')
in_child(runs)
assert np.asarray(f(x))[0, 0] == 2
""",
        "template_npu",
    )


def test_rules_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    begins = []
    monkeypatch.setattr(
        os, "register_at_fork", lambda after_in_child: begins.append(after_in_child)
    )
    monkeypatch.setattr(forks, "_process", forks._Process())
    forks.watch_forks(lambda: begins.append("kept"))
    with forks.compiling():
        forks.note_compilation()
    begins[0]()
    assert begins[1:] == ["kept"]
    with forks.compiling():
        pass  # JAX compiles in the thread that asks: the child can, too
    forks.check_device(True)
    with pytest.raises(DeviceError, match="parent"):
        forks.check_device(False)
    forks.note_compilation()
    with pytest.raises(CompileError, match="fork"), forks.compiling():
        pass
