"""Costs of programs that are lowered and not compiled."""

from __future__ import annotations

import pytest

import xladev
from tests.tools.jax_child import run_jax
from xladev.frontends.jax.costs import lowered_costs
from xladev.hlo.proto import write_module

TEXT = """
HloModule m

body {
  c = f32[8,8] parameter(0)
  ROOT d = f32[8,8] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
cond { c = f32[8,8] parameter(0)  ROOT p = pred[] constant(false) }

ENTRY e {
  x = f32[8,8] parameter(0)
  w = f32[8,8] while(x), condition=cond, body=body
  ROOT t = f32[8,8] tanh(w)
}
"""


def test_loops_count_once_and_functions_apart() -> None:
    costs = lowered_costs(write_module(xladev.parse(TEXT)))
    product = 2 * 8**3
    assert costs == {
        "flops": product + 64.0,
        "transcendentals": 64.0,
        "bytes accessed": 2 * 256 + 2 * 256.0,
    }


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_jax_tells_them(platform: str) -> None:
    run_jax(
        """
lowered = jax.jit(lambda x: jnp.tanh(x @ x).sum()).lower(jnp.ones((64, 64)))
before, after = lowered.cost_analysis(), lowered.compile().cost_analysis()
assert before['flops'] == after['flops'] == 2 * 64**3 + 2 * 64**2, (before, after)
assert before['transcendentals'] == 64**2
assert before['bytes accessed'] > after['bytes accessed'] == 4 * 64**2 + 4
assert lowered.compile().memory_analysis().argument_size_in_bytes == 4 * 64**2
with jax.default_device(jax.devices('cpu')[0]):
    xla = jax.jit(lambda x: jnp.tanh(x @ x).sum()).lower(jnp.ones((64, 64))).cost_analysis()
assert 'utilization0{}' in xla, "JAX's own CPU keeps its own"
""",
        platform,
    )
