"""What JAX's options mean for xladev's platforms."""

from __future__ import annotations

import pytest

from tests.tools.jax_child import run_jax

_FIVE = "--xla_cpu_use_thunk_runtime=true --xla_force_host_platform_device_count=5"


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"JAX_NUM_CPU_DEVICES": "8"}, 8),
        ({"XLA_FLAGS": _FIVE}, 5),
        ({"JAX_NUM_CPU_DEVICES": "8", "XLADEV_CPU_DEVICES": "3"}, 3),
        ({}, 1),
    ],
)
def test_the_processor_has_as_many_devices_as_jax_is_told(
    variables: dict[str, str], count: int
) -> None:
    run_jax(
        f"""
import numpy as np
assert len(jax.devices()) == {count}, jax.devices()
last = jax.devices()[-1]
x = jax.device_put(np.arange(4.0, dtype=np.float32), last)
y = jax.jit(lambda x: x * 2)(x)
assert y.devices() == {{last}} and y.tolist() == [0.0, 2.0, 4.0, 6.0]
assert len(jax.devices('template_npu')) == 2, 'other devices stay as many as there are'
""",
        "xladev_cpu,template_npu",
        **variables,
    )


def test_a_simulator_has_as_many_devices_as_its_variable_says() -> None:
    run_jax(
        """
assert len(jax.devices()) == 4, jax.devices()
assert len(jax.devices('xladev_cpu')) == 8
""",
        "template_npu,xladev_cpu",
        XLADEV_TEMPLATE_NPU_DEVICES="4",
        JAX_NUM_CPU_DEVICES="8",
    )
