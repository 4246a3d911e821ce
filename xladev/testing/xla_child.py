"""Runs a module with XLA's CPU backend: the child of `xladev.testing.fuzz --xla`.

It needs jaxlib, whose private names are used here and in `tests.tools.oracle` alone, and of xladev
only what reads messages and names the known differences.
"""

from __future__ import annotations

import os

import numpy as np

from xladev.testing.wire import pack, unpack, unpack_module
from xladev.testing.xla_differences import known_difference


def execute(message: bytes) -> bytes:
    """Results of a module on arrays, on one device; or the known difference that it meets."""
    _, arrays, proto = unpack(message)
    module = unpack_module(proto)
    reason = known_difference(module, arrays)
    if reason:
        return pack({"skipped": f"known: {reason}"})
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    from jax._src import xla_bridge
    from jaxlib import _jax

    jax.config.update("jax_enable_x64", True)
    client = xla_bridge.get_backend("cpu")
    program = _jax.mlir.hlo_to_stablehlo(proto)
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(program, devices, _jax.CompileOptions())
    given = [jax.device_put(a) for a in arrays]
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return pack({}, [np.asarray(row[0]) for row in results])
