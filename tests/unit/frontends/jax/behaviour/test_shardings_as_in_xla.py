"""Shardings of JAX programs: what is chosen here is what XLA chooses, and values agree.

XLA runs Shardy's propagation; here it is written anew. Both take the same programs, over eight
devices each, and say how arguments and results lie that are left open.
"""

from pathlib import Path

import pytest

from tests.tools.jax_child import run_jax

CASES = Path(__file__).parent / "sharded_cases.py"


@pytest.mark.long
def test_the_same_shardings_as_xla() -> None:
    found = run_jax(
        f"import runpy; runpy.run_path({str(CASES)!r})",
        "xladev_cpu,cpu",
        XLADEV_CPU_DEVICES="8",
        XLA_FLAGS="--xla_force_host_platform_device_count=8",
    )
    assert int(found.split()[-1]) == 54
