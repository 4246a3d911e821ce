"""Arrays in and out: memory of the caller's, DLPack with the host's libraries, programs on disk."""

import pytest

from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long


def test_dlpack_shares_memory_with_the_host() -> None:
    run_jax(
        """
import numpy as np
x = jnp.arange(64.0)
shown = np.from_dlpack(x)
assert shown.__array_interface__['data'][0] == x.unsafe_buffer_pointer()
assert jax.jit(lambda v: v + 1, donate_argnums=0)(x)[0] == 1 and shown.tolist() == list(range(64))
here = jnp.from_dlpack(np.arange(64.0, dtype=np.float32))
assert here.devices() == {jax.devices()[0]} and float((here + 1).sum()) == 2080
again = jax.dlpack.from_dlpack(jnp.ones(3, jnp.bfloat16))
assert again.devices() == {jax.devices()[0]} and again.tolist() == [1, 1, 1]
host = jax.device_put(here, jax.devices('cpu')[0])
assert jax.dlpack.from_dlpack(host).devices() == {jax.devices('cpu')[0]}
assert jax.dlpack.from_dlpack(here, device=jax.devices('cpu')[0]).devices() == host.devices()
far = jax.device_put(here, jax.devices('template_npu')[0])
try:
    np.from_dlpack(far)
except Exception as error:
    assert 'no host address' in str(error), error
else:
    raise SystemExit('memory of the NPU was shown to the host')
""",
        "xladev_cpu,template_npu",
    )


def test_aligned_memory_of_the_caller_is_used_in_place() -> None:
    run_jax(
        """
import gc, weakref
import numpy as np
class Owner(np.ndarray):
    pass
def aligned(count, skew):
    raw = np.zeros(4 * count + 128, np.uint8)
    start = -raw.__array_interface__['data'][0] % 64 + skew
    return raw[start : start + 4 * count].view(np.float32)
def address(a):
    return a.__array_interface__['data'][0]
for count, skew, shared in ((1 << 16, 0, True), (1 << 16, 16, False), (64, 0, False)):
    a = aligned(count, skew)
    x = jax.device_put(a)
    assert (x.unsafe_buffer_pointer() == address(a)) == shared, (count, skew)
    assert jax.device_put(a.reshape(2, -1).T).tolist() == a.reshape(2, -1).T.tolist()
a = aligned(1 << 16, 0)
before = a.copy()
x = jax.device_put(a)
y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
assert y[0] == 1 and np.array_equal(a, before), 'donation wrote memory of the caller'
gone = []
held = aligned(1 << 16, 0).view(Owner)
weakref.finalize(held, gone.append, 1)
z = jax.device_put(held)
w = jax.jit(lambda v: jax.lax.fori_loop(0, 50, lambda i, c: c + v, v))(z)
del held, z
gc.collect()
assert float(w[0]) == 0
del w
for _ in range(3):
    jax.device_put(np.ones(3)).block_until_ready()
    gc.collect()
assert gone == [1], 'the memory was not given back'
"""
    )


def test_jax_keeps_programs_on_disk() -> None:
    program = """
import os
with __import__('tempfile').TemporaryDirectory() as folder:
    jax.config.update('jax_compilation_cache_dir', folder)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
    jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
    hits = []
    jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
    assert jax.jit(lambda x: x * 3)(2.0) == 6 and os.listdir(folder)
    jax.clear_caches()
    assert '/jax/compilation_cache/cache_hits' not in hits
    assert jax.jit(lambda x: x * 3)(3.0) == 9 and '/jax/compilation_cache/cache_hits' in hits
    before = len(os.listdir(folder))
    seen = []
    for _ in range(2):
        jax.jit(lambda x: (jax.debug.callback(seen.append, x), x)[1])(1.0).block_until_ready()
        jax.effects_barrier()
        jax.clear_caches()
    assert len(seen) == 2 and len(os.listdir(folder)) == before, 'a Python function was stored'
"""
    run_jax(program)
