"""XLA:CPU through JAX: functions by `jax.jit`, files by its client; also makes HLO of functions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu.child import Clock, Job, Prepared, serve, touch
from benchmarks.cpu.wire import Array


class Jax:
    """XLA's CPU backend; it takes as many threads as the process has processors."""

    def __init__(self) -> None:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=4".strip()
        import jax

        from benchmarks.cpu.functions import jax_functions

        self._jax = jax
        self._functions = jax_functions.FUNCTIONS

    def versions(self) -> dict[str, str]:
        """Of JAX and jaxlib."""
        import jaxlib

        return {"jax": self._jax.__version__, "jaxlib": jaxlib.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Compiles, and puts the arguments on the device."""
        if job.kind in ("program", "model"):
            with self._jax.enable_x64(True):
                return self._file(job)
        if not any(map(_is_wide, job.inputs)):
            return self._function(job)
        with self._jax.enable_x64(True):
            prepared = self._function(job)
        return replace(prepared, call=self._widely(prepared.call))

    def _widely(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """The call where 64 bits are enabled: elsewhere JAX would make it another one, of f32."""

        def called() -> Any:
            with self._jax.enable_x64(True):
                return call()

        return called

    def _function(self, job: Job) -> Prepared:
        jax = self._jax
        arguments = [jax.device_put(a, jax.devices()[0]) for a in job.fed]
        function = jax.jit(
            _closed(self._functions[job.kind](job.parameters), job), keep_unused=True
        )
        lowered = function.lower(*arguments)
        clock = Clock()
        compiled = lowered.compile()
        compile_s = clock.read()
        if job.hlo is not None and not job.hlo.exists():
            _write(job.hlo, lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
        function(*arguments)

        def call() -> list[Array]:
            return _read(jax.tree.leaves(function(*arguments)))

        memory = _memory(compiled.memory_analysis())
        return Prepared(call, lambda kept: list(kept), memory, compile_s)

    def _file(self, job: Job) -> Prepared:
        from jax._src import xla_bridge
        from jaxlib import _jax

        if job.hlo is None:
            raise ValueError("a program is a file")
        proto = job.hlo.read_bytes()
        client = xla_bridge.get_backend("cpu")
        count = int(job.parameters.get("devices", 1))
        devices = client.local_devices()[:count]
        options = _jax.CompileOptions()
        if count > 1:
            options.num_partitions = count
            options.executable_build_options.num_partitions = count
            options.executable_build_options.use_spmd_partitioning = True
            options.executable_build_options.use_shardy_partitioner = True
            assignment = np.arange(count).reshape(1, count)
            options.device_assignment = _jax.DeviceAssignment.create(assignment)
        program = _jax.mlir.hlo_to_stablehlo(proto)
        clock = Clock()
        executable = client.compile_and_load(program, _jax.DeviceList(tuple(devices)), options)
        compile_s = clock.read()
        arguments = self._arguments(job.inputs, devices)
        taken: list[int] = []

        def call() -> list[Array]:
            # What the module donates is gone after each call; xladev copies it itself.
            if taken:
                with self._jax.enable_x64(True):
                    for number in taken:
                        arguments[number] = self._jax.device_put(job.inputs[number], devices[0])
            rows = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
            return _read([row[0] for row in rows])

        call()
        taken += [n for n, array in enumerate(arguments) if array.is_deleted()]
        memory = _memory(executable.get_compiled_memory_stats())
        return Prepared(call, lambda kept: list(kept), memory, compile_s)

    def _arguments(self, inputs: list[Array], devices: Any) -> list[Any]:
        jax = self._jax
        if len(devices) == 1:
            return [jax.device_put(a, devices[0]) for a in inputs]
        mesh = jax.sharding.Mesh(np.array(devices), ("x",))
        everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        return [jax.device_put(a, everywhere) for a in inputs]


def _closed(function: Callable[..., Any], job: Job) -> Callable[..., Any]:
    """The function of what it is fed; arrays that it closes over are constants of the HLO."""
    constants = job.constants
    return (lambda *fed: function(*fed, *constants)) if constants else function


def _is_wide(array: Array) -> bool:
    return array.dtype.name in ("float64", "complex128")


def _read(results: list[Any]) -> list[Array]:
    arrays = [np.asarray(r) for r in results]
    touch(arrays)
    return arrays


def _memory(stats: Any) -> dict[str, int]:
    return {
        "temporary": stats.temp_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
    }


def _write(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}")
    temporary.write_bytes(data)
    temporary.replace(path)


if __name__ == "__main__":
    serve(Jax)
