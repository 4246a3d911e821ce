"""Which all-reduces of a program become one: by the option of the compiler."""

import numpy as np
import pytest

import xladev
from tests.tools.jax_child import run_jax
from xladev.compiler.options import CompileOptions
from xladev.compiler.prepare import sharding_pipeline
from xladev.hlo.text import parse_module

TEXT = """HloModule m, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64] parameter(0)  y = f32[8] parameter(1)  z = f32[64] parameter(2)
  a = f32[64] all-reduce(x), channel_id=1, to_apply=add
  b = f32[8] all-reduce(y), channel_id=2, to_apply=add
  c = f32[64] all-reduce(z), channel_id=3, to_apply=add
  ROOT t = (f32[64], f32[8], f32[64]) tuple(a, b, c)
}"""


@pytest.mark.parametrize(("bucket", "sizes"), [(0, [1, 1, 1]), (300, [1, 2]), (1 << 20, [3])])
def test_no_more_bytes_than_the_bucket_holds_become_one(bucket: int, sizes: list[int]) -> None:
    made = sharding_pipeline(2, bucket).run(parse_module(TEXT))
    found = [len(i.operands) for i in made.entry.instructions if i.opcode == "all-reduce"]
    assert sorted(found) == sizes
    compiled = xladev.compile(TEXT.encode(), "cpu", CompileOptions(all_reduce_bucket=bucket))
    rows = [[np.full(n, d + 1, np.float32) for n in (64, 8, 64)] for d in range(2)]
    for row in compiled.run_on_devices(rows):
        assert all(np.all(np.asarray(each) == 3) for each in row)


@pytest.mark.long
def test_programs_of_jax_say_it_by_compiler_options() -> None:
    run_jax(
        """
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
cut = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
x = jax.device_put(np.ones((8, 3), np.float32), cut)
def sums(x):
    return x.sum(0), (x * x).sum(1, keepdims=True).sum(0)
for bucket, count in ((0, 2), (1 << 20, 1)):
    compiled = jax.jit(sums, compiler_options={"all_reduce_bucket": bucket}).lower(x).compile()
    text = compiled.as_text()
    assert text.count(" all-reduce(") == count, text
    assert [each.tolist() for each in compiled(x)] == [[8.0] * 3, [24.0]]
""",
        JAX_NUM_CPU_DEVICES="4",
    )
