"""Runs a module with XLA's CPU backend: the child process's side of `tests.tools.xla_witness`.

It needs jaxlib, whose private names are used here and in `tests.tools.oracle` alone, and of xladev
only what reads messages.
"""

from __future__ import annotations

import os

from xladev.testing.wire import pack, unpack


def execute(message: bytes) -> bytes:
    """Results of a module on arrays, on one device; all flattened to a list of arrays."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import numpy as np
    from jax._src import xla_bridge
    from jaxlib import _jax

    jax.config.update("jax_enable_x64", True)
    _, arrays, proto = unpack(message)
    client = xla_bridge.get_backend("cpu")
    program = _jax.mlir.hlo_to_stablehlo(proto)
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(program, devices, _jax.CompileOptions())
    given = [jax.device_put(a) for a in arrays]
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return pack({}, [np.asarray(row[0]) for row in results])
