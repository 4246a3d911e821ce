"""Python functions that JAX programs call: whose mistake an error is, and when it is raised."""

from __future__ import annotations

import pytest

from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long

PLATFORMS = ("xladev_cpu", "template_npu", "interpreter")

_SETTING = """
import numpy as np
from jax.experimental import io_callback
shape = jax.ShapeDtypeStruct((4,), jnp.float32)
def fails(x):
    raise ValueError('on purpose')
x = jnp.ones(4)
def raised(f, *arguments):
    try:
        f(*arguments)
    except Exception as error:
        return str(error)
    return ''
"""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_failing_callback_is_told_at_the_call(platform: str) -> None:
    shown = run_jax(
        _SETTING
        + """
ways = (
    lambda x: jax.pure_callback(fails, shape, x) * 2,
    lambda x: io_callback(fails, shape, x),
    lambda x: io_callback(fails, shape, x, ordered=True),
    lambda x: jax.debug.callback(fails, x),
)
for way in ways:
    text = raised(jax.jit(way), x)
    assert 'the Python callback raised ValueError: on purpose' in text, text
    assert 'where: <string>:8, in fails; called at <string>:' in text, text
    assert 'correct that function' in text and 'interpreter' not in text, text
    assert 'site-packages' not in text, text
assert (jnp.ones(4) + 1).tolist() == [2.0] * 4
print(text)
""",
        platform,
    )
    assert "Traceback (most recent call last):" in shown


def test_a_callback_that_fails_later_is_told_at_that_call() -> None:
    """The first call takes another way through JAX than later ones."""
    run_jax(
        _SETTING
        + """
calls = iter(range(9))
def third(x):
    if next(calls) == 2:
        raise KeyError('third')
    return x
f = jax.jit(lambda x: jax.pure_callback(third, shape, x))
assert [bool(raised(f, x)) for _ in range(4)] == [False, False, True, False]
""",
    )


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_programs_that_run_later_tell_where_they_are_read(platform: str) -> None:
    run_jax(
        _SETTING
        + """
@jax.jit
def loops(x):
    return jax.lax.fori_loop(0, 3, lambda i, c: jax.pure_callback(fails, shape, c), x)
@jax.jit
def only_effects(x):
    jax.lax.fori_loop(0, 3, lambda i, c: (jax.debug.callback(fails, c), c)[1], x)
poisoned = loops(x)
after = jax.jit(lambda v: jax.pure_callback(np.sin, shape, v))(poisoned)
for array in (poisoned, after):
    assert 'the Python callback raised ValueError' in raised(array.block_until_ready)
only_effects(x)
assert 'the Python callback raised ValueError' in raised(jax.effects_barrier)
""",
        platform,
    )


def test_results_that_do_not_fit_are_the_functions_mistake() -> None:
    run_jax(
        _SETTING
        + """
for given, says in (
    (np.zeros(5, np.float32), 'Incorrect output shape for return value #0'),
    (np.zeros(4, np.int32), 'Incorrect output dtype for return value #0'),
):
    text = raised(jax.jit(lambda x: jax.pure_callback(lambda _: given, shape, x)), x)
    assert 'gave what the program does not expect' in text and says in text, text
    assert 'where: called at <string>:' in text, text
"""
    )


def test_a_failing_call_leaves_no_memory_behind() -> None:
    """It takes back what it had made for its results."""
    run_jax(
        _SETTING
        + """
import gc
f = jax.jit(lambda x: jax.pure_callback(fails, shape, x) * 2)
def in_use():
    gc.collect()
    return jax.devices()[0].memory_stats()['num_allocs']
assert raised(f, x)
before = in_use()
assert all(raised(f, x) for _ in range(50))
assert in_use() == before
""",
    )


def test_ctrl_c_in_a_callback_is_not_swallowed() -> None:
    """JAX makes an ordinary error of it, which a loop of retries would catch."""
    shown = run_jax(
        _SETTING
        + """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupted(x):
    raise KeyboardInterrupt
try:
    raised(jax.jit(lambda x: jax.pure_callback(interrupted, shape, x)), x)
    for _ in range(10):
        pass
    print('went on')
except KeyboardInterrupt:
    print('stopped')
""",
    )
    assert shown == "stopped\n"
