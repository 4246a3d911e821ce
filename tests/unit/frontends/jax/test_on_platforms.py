"""JAX programs on xladev's platforms, each in a process of its own."""

import pytest

from tests.tools.jax_child import run_jax

PLATFORMS = ("xladev_cpu", "template_npu", "interpreter", "xladev")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_jitted_function(platform: str) -> None:
    shown = run_jax(
        """
f = jax.jit(lambda x, y: ((x + y) * 2, x @ y, jnp.sum(x)))
x = jnp.arange(9.0).reshape(3, 3)
a, b, c = f(x, x)
assert a.tolist() == (4 * x).tolist() and b.shape == (3, 3) and float(c) == 36
print(jax.default_backend(), b[2, 2])
""",
        platform,
    )
    assert shown == f"{platform} 111.0\n"
