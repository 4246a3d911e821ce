"""XLA:CPU's program of one device: HLO on standard input, compiled HLO on standard output.

    python -m tests.tools.xla_partitioned 8 < FILE

Needs jaxlib, whose bindings for this are private; XLA may end the process. Shardings are spread by
XLA's own propagation, not by Shardy.
"""

import os
import sys


def partitioned(text: str, count: int) -> str:
    """The compiled program as text."""
    import numpy as np
    from jaxlib import _hlo, _jax, xla_client

    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    program = _jax.mlir.hlo_to_stablehlo(proto)
    client = xla_client.make_cpu_client()
    options = _jax.CompileOptions()
    options.num_replicas, options.num_partitions = 1, count
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, count
    build.use_spmd_partitioning, build.use_shardy_partitioner = True, False
    devices = np.arange(count).reshape(1, count)
    build.device_assignment = xla_client.DeviceAssignment.create(devices)
    listed = _jax.DeviceList(tuple(client.local_devices()))
    made = client.compile_and_load(program, listed, options)
    return str(made.hlo_modules()[0].to_string())


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={sys.argv[1]} --xla_backend_optimization_level=0"
    )
    print(partitioned(sys.stdin.read(), int(sys.argv[1])))
