"""`XLADEV_TRACE` sees what JAX compiles and runs on xladev's platforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.jax_child import run_jax
from xladev.profiling.timeline.check import check_trace
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.tables import ask, open_tables

pytestmark = pytest.mark.long

PROGRAM = """
f = jax.jit(lambda w, x: jax.nn.softmax(x @ w))
x = jnp.ones((64, 64))
for _ in range(5):
    y = f(x, x)
print(y.block_until_ready().shape)
"""


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_jax_programs_have_launches_and_kernels(platform: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    run_jax(PROGRAM, platform, XLADEV_TRACE=str(path))
    document = read_trace(path)
    assert check_trace(document) == []
    database = open_tables(document)
    launches = "SELECT count(*) FROM slices WHERE cat = 'cluster' AND hlo_module LIKE '%lambda%'"
    assert ask(database, launches)[1] == [(5,)]
    product = "SELECT count(*) FROM slices WHERE cat = 'kernel' AND op_name LIKE '%dot_general%'"
    assert ask(database, product)[1] == [(5,)]
