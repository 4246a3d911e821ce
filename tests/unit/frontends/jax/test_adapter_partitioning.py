"""Python functions that take part in partitioning: custom_partitioning, inspect_array_sharding."""

from __future__ import annotations

import pytest

from tests.tools.jax_child import run_jax

PLATFORMS = pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
MESH = """
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(-1, 2), ('x', 'y'))
def cut(values, *spec):
    return jax.device_put(values, NamedSharding(mesh, P(*spec)))
"""
EIGHT = {"XLADEV_CPU_DEVICES": "8"}


@PLATFORMS
def test_a_function_that_says_how_it_is_divided(platform: str) -> None:
    """Rows are sorted as they lie; where columns are cut too, those alone are joined."""
    run_jax(
        MESH
        + """
@custom_partitioning
def rows_sorted(x):
    return jnp.sort(x, 1)
def partition(mesh, arguments, result):
    rows = NamedSharding(mesh, P(arguments[0].sharding.spec[0], None))
    return mesh, lambda x: jnp.sort(x, 1), rows, (rows,)
rows_sorted.def_partition(partition, sharding_rule='i j -> i j', need_replication_factors=('j',))
values = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
for spec, joins in ((('x',), False), (('x', 'y'), True)):
    compiled = jax.jit(rows_sorted).lower(cut(values, *spec)).compile()
    assert ('all-gather' in compiled.as_text()) == joins, spec
    got = compiled(cut(values, *spec))
    np.testing.assert_array_equal(got, np.sort(values, 1))
""",
        platform,
        **EIGHT,
    )


@PLATFORMS
def test_several_results_and_collectives_within_a_loop(platform: str) -> None:
    run_jax(
        MESH
        + """
@custom_partitioning
def normalised(x):
    total = x.sum()
    return x / total, total
def partition(mesh, arguments, result):
    def local(x):
        total = jax.lax.psum(x.sum(), ('x', 'y'))
        return x / total, total
    rows, whole = NamedSharding(mesh, P(('x', 'y'))), NamedSharding(mesh, P())
    return mesh, local, (rows, whole), (rows,)
normalised.def_partition(partition, sharding_rule='i -> i, ')
def f(x):
    def body(x, _):
        y, total = normalised(x)
        return y * 2, total
    return jax.lax.scan(body, x, None, length=3)
values = np.arange(1, 17, dtype=np.float32)
with mesh:
    last, totals = jax.jit(f)(cut(values, ('x', 'y')))
np.testing.assert_allclose(totals, [136, 2, 2], rtol=1e-6)
np.testing.assert_allclose(last, 2 * values / 136, rtol=1e-6)
""",
        platform,
        **EIGHT,
    )


def test_an_error_in_it_names_its_line() -> None:
    run_jax(
        MESH
        + """
@custom_partitioning
def f(x):
    return x
def partition(mesh, arguments, result):
    raise ZeroDivisionError('mine')
f.def_partition(partition, sharding_rule='i -> i')
try:
    jax.jit(f)(cut(np.ones(8, np.float32), 'x'))
except jax.errors.JaxRuntimeError as error:
    for text in ('USER_FUNCTION', 'CustomSPMDPartitioning', 'ZeroDivisionError: mine', 'partition'):
        assert text in str(error), (text, str(error))
else:
    raise AssertionError('no error')
""",
        **EIGHT,
    )


def test_shardings_within_a_program_are_told() -> None:
    """In gradients too; and drawn."""
    run_jax(
        MESH
        + """
told = []
def f(x):
    y = jnp.sin(x)
    jax.debug.inspect_array_sharding(y, callback=told.append)
    jax.debug.visualize_array_sharding(y)
    return y.sum()
x = cut(np.ones((16, 8), np.float32), 'x', 'y')
np.testing.assert_allclose(jax.jit(f)(x), 128 * np.sin(1), rtol=1e-5)
np.testing.assert_allclose(jax.jit(jax.grad(f))(x), np.full((16, 8), np.cos(1)), rtol=1e-5)
assert len(told) == 2 and {sharding.spec for sharding in told} == {P('x', 'y')}, told
""",
        **EIGHT,
    )


def test_functions_of_another_process_are_refused() -> None:
    run_jax(
        """
from dataclasses import replace
from xladev.errors import CompileError
from xladev.frontends.jax.adapter_partitioning import divide, tell
from xladev.hlo.attributes import Sharding
from xladev.hlo.text import parse_module
program = parse_module('''HloModule m
ENTRY e { x = f32[8] parameter(0)
  ROOT c = f32[8] custom-call(x), custom_call_target="t", backend_config="1234567890123456" }''')
for function in (divide, tell):
    try:
        function(program.entry.root, (Sharding('replicated'),), (Sharding('replicated'),))
    except CompileError as error:
        assert 'not in this process' in str(error)
    else:
        raise AssertionError(function)
"""
    )
