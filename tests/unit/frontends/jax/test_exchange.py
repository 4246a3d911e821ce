"""Arrays in and out: DLPack with the host's libraries."""

from tests.tools.jax_child import run_jax


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
