"""Tests for JAX's own multi-process driver, run by `tests/unit/frontends/jax/behaviour`."""

import jax
import numpy as np
from jax import lax
from jax._src import test_multiprocess
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


class Sample(test_multiprocess.MultiProcessTest):
    """Collectives of all devices of all processes, on the platform that was asked for."""

    def mesh(self):
        """All devices in a row."""
        assert {d.platform for d in jax.devices()} == {"xladev_cpu"}
        assert jax.process_count() == test_multiprocess.NUM_PROCESSES.value
        return jax.make_mesh((jax.device_count(),), ("x",))

    def given(self, mesh):
        """A row for each device, and the same on the host."""
        whole = np.arange(8 * jax.device_count(), dtype=np.float32).reshape(-1, 8)
        sharding = NamedSharding(mesh, P("x"))
        return jax.make_array_from_callback(whole.shape, sharding, lambda i: whole[i]), whole

    def test_sum(self):
        mesh = self.mesh()
        x, whole = self.given(mesh)
        total = jax.jit(
            jax.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
        )(x)
        np.testing.assert_array_equal(np.asarray(total)[0], whole.sum(0))

    def test_resharding(self):
        mesh = self.mesh()
        x, whole = self.given(mesh)
        columns = NamedSharding(mesh, P(None, "x"))
        moved = jax.jit(lambda a: a * 2, out_shardings=columns)(x)
        for shard in moved.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), 2 * whole[shard.index])

    def test_gathered_on_all_hosts(self):
        x, whole = self.given(self.mesh())
        found = multihost_utils.process_allgather(x, tiled=True)
        np.testing.assert_array_equal(found, whole)


if __name__ == "__main__":
    test_multiprocess.main()
