"""Arguments and results in other orders and kinds of memory than the usual."""

import numpy as np
import pytest

from tests.tools.jax_child import run_jax
from xladev.errors import UnsupportedError
from xladev.frontends.jax.entry_interface import (
    BufferPlacement,
    EntryInterface,
    logical_dims,
    minor_to_major,
    read_place,
    with_entry_layout,
    with_places,
)
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

TEXT = """
HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  sum = f32[2,3] add(x, y)
  ROOT r = (f32[2,3], f32[2,3]) tuple(sum, x)
}
"""
TURNED = BufferPlacement(order=(1, 0))


def test_attributes_say_where_things_lie() -> None:
    assert read_place({}) == BufferPlacement()
    assert (
        read_place({"mhlo.layout_mode": "{1,0}", "mhlo.memory_kind": "device"}) == BufferPlacement()
    )
    assert read_place({"mhlo.layout_mode": "auto"}) == BufferPlacement(is_auto=True)
    assert read_place({"mhlo.layout_mode": "{0,2,1}"}) == BufferPlacement(order=(1, 2, 0))
    assert read_place({"mhlo.memory_kind": "pinned_host"}).kind == 1
    for wrong in ({"mhlo.layout_mode": "{1,0:T(8,128)}"}, {"mhlo.memory_kind": "drum"}):
        with pytest.raises(UnsupportedError):
            read_place(wrong)


def test_dims_in_memory_and_seen() -> None:
    assert logical_dims((4, 2, 3), (2, 0, 1)) == (2, 3, 4)
    assert logical_dims((4, 2), ()) == (4, 2)
    assert minor_to_major((2, 0, 1), 3) == (1, 0, 2) and minor_to_major((), 2) == (1, 0)


def test_module_takes_and_gives_what_lies_in_memory() -> None:
    module = parse_module(TEXT)
    interface = EntryInterface((TURNED, BufferPlacement()), (BufferPlacement(), TURNED))
    changed = with_places(module, interface)
    verify(changed)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    total, same = HloEvaluator().run(changed, x.T.copy(), y)
    assert np.array_equal(total, x + y) and np.array_equal(same, x.T)
    assert with_places(module, EntryInterface()) is module
    shown = with_entry_layout(module, interface).entry_layout
    assert [s.layout and s.layout.minor_to_major for s in shown.parameters] == [(0, 1), (1, 0)]


@pytest.mark.long
@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_jax_lays_arrays_out(platform: str) -> None:
    run_jax(
        """
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.experimental.serialize_executable import deserialize_and_load, serialize
device = jax.devices()[0]
where = jax.sharding.SingleDeviceSharding(device)
a = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
for order in ((2, 1, 0), (1, 0, 2), (2, 0, 1), (1, 2, 0)):
    wanted = Format(Layout(order), where)
    x = jax.device_put(a, wanted)
    assert x.format.layout.major_to_minor == order and np.array_equal(x, a)
    assert np.array_equal(jax.jit(lambda x: x + 1)(x), a + 1)
    y, z = jax.jit(lambda x: (x * 2, x.sum(0)), out_shardings=(wanted, None))(x)
    assert y.format.layout.major_to_minor == order and np.array_equal(y, 2 * a)
    assert np.array_equal(z, a.sum(0))
    f = jax.jit(lambda x: x - 1, in_shardings=wanted, out_shardings=wanted, donate_argnums=0)
    compiled = f.lower(jax.ShapeDtypeStruct(a.shape, a.dtype)).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == order
    again = deserialize_and_load(*serialize(compiled), execution_devices=[device])
    assert np.array_equal(f(again(y)), 2 * a - 2) and y.is_deleted()
    assert np.array_equal(jax.device_put(x, jax.devices('cpu')[0]), a)
small = a[0].astype(jnp.int4)
assert np.array_equal(jax.device_put(small, Format(Layout((1, 0)), where)), small)
""",
        platform,
    )


@pytest.mark.long
def test_kinds_of_memory() -> None:
    run_jax(
        """
import numpy as np
device = jax.devices()[0]
kinds = ['device', 'pinned_host', 'unpinned_host']
assert [m.kind for m in device.addressable_memories()] == kinds
assert device.default_memory().kind == 'device'
at = {k: jax.sharding.SingleDeviceSharding(device, memory_kind=k) for k in kinds}
x = jax.device_put(np.arange(3.0), at['pinned_host'])
assert x.sharding.memory_kind == 'pinned_host'
f = jax.jit(lambda x: jax.device_put(x, at['device']) * 2, out_shardings=at['unpinned_host'])
y = f(x)
assert y.sharding.memory_kind == 'unpinned_host' and y.tolist() == [0, 2, 4]
assert jax.device_put(y, at['device']).sharding.memory_kind == 'device'
"""
    )
