"""Results of dynamic size: PJRT clients are told the sizes, and given the live part only."""

import numpy as np
import pytest

from tests.tools.jax_child import run_jax
from tests.tools.pjrt_table import Table
from xladev.hlo.text import parse_module

_MODULE = """HloModule m
ENTRY e {
  n = s32[] parameter(0)
  k = s32[] parameter(1)
  x = f32[8,3,5] parameter(2)
  a = f32[<=8,3,5] set-dimension-size(x, n), dimensions={0}
  b = f32[<=8,3,<=5] set-dimension-size(a, k), dimensions={2}
  twice = f32[<=8,3,<=5] add(b, b)
  ROOT r = (f32[<=8,3,<=5], f32[8,3,5]) tuple(twice, x)
}
"""
X = np.arange(120, dtype=np.float32).reshape(8, 3, 5)


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


def _results(table: Table, n: int, k: int) -> list[int]:
    client = table.client()
    loaded = table.compiled(client, parse_module(_MODULE))
    given = [table.put(client, np.asarray(v)) for v in (np.int32(n), np.int32(k), X)]
    return table.execute(loaded, given, 2)


@pytest.mark.parametrize(("n", "k"), [(3, 2), (8, 5), (8, 1), (0, 4), (1, 5)])
def test_sizes_and_the_live_part(table: Table, n: int, k: int) -> None:
    dynamic, static = _results(table, n, k)
    assert table.ask("Buffer_Dimensions", dynamic).words(1, 2) == [8, 3, 5]
    assert table.ask("Buffer_UnpaddedDimensions", dynamic).words(1, 2) == [n, 3, k]
    assert table.ask("Buffer_DynamicDimensionIndices", dynamic).words(1, 2) == [0, 2]
    assert table.fetch(dynamic) == (X[:n, :, :k] * 2).tobytes()
    assert not table.ask("Buffer_IsOnCpu", dynamic).word(1) & 1
    assert table.ask("Buffer_UnpaddedDimensions", static).words(1, 2) == [8, 3, 5]
    assert table.ask("Buffer_DynamicDimensionIndices", static).words(1, 2) == []
    assert table.fetch(static) == X.tobytes()


def test_copies_keep_their_sizes(table: Table) -> None:
    dynamic, _ = _results(table, 3, 2)
    memory = table.ask("Buffer_Memory", dynamic).word(1)
    copy = table.ask("Buffer_CopyToMemory", dynamic, memory).word(2)
    table.ask("Buffer_Destroy", dynamic)
    assert table.ask("Buffer_UnpaddedDimensions", copy).words(1, 2) == [3, 3, 2]
    assert table.fetch(copy) == (X[:3, :, :2] * 2).tobytes()
    table.ask("Buffer_Delete", copy)
    assert table.ask("Buffer_UnpaddedDimensions", copy).words(1, 2) == [3, 3, 2]


_PROGRAM = """
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir
bounded = 'tensor<?x2xf32, #stablehlo.bounds<8, ?>>'
text = f'''
func.func public @main(%n: tensor<i32>, %x: tensor<8x2xf32>) -> {bounded} {{
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8x2xf32>, tensor<i32>) -> {bounded}
  %1 = stablehlo.add %0, %0 : {bounded}
  return %1 : {bounded}
}}'''
with mlir.make_ir_context():
    module = ir.Module.parse(text)
device, = jax.devices()[:1]
options = xla_client.CompileOptions()
program = device.client.compile_and_load(module, xla_client.DeviceList((device,)), options)
x = jnp.arange(16.0).reshape(8, 2)
for n in (3, 8, 0):
    (made,), = program.execute_sharded([jnp.int32(n), x]).disassemble_into_single_device_arrays()
    print(jax.device_get(made).tolist())
"""


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_jax_sees_the_live_part(platform: str) -> None:
    whole = (np.arange(16.0).reshape(8, 2) * 2).tolist()
    lines = run_jax(_PROGRAM, platform).splitlines()
    assert lines == [str(whole[:3]), str(whole), "[]"]
