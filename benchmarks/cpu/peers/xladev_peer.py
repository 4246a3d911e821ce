"""xladev itself, on the platform ``cpu``."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from benchmarks.cpu.child import Clock, Job, Prepared, Refused, serve, touch
from benchmarks.cpu.packing import values_nbytes
from benchmarks.cpu.wire import Array
from xladev.hlo.ir import HloModule
from xladev.runtime.array import put


class Xladev:
    """Compiles the row's HLO; arguments are arrays of the device.

    The cache on disk begins empty: the first compilation of a row misses and writes it, the second
    one is what another process would do. Microkernels that come compiled are used where they are
    (see docs/reference/caching.md). As JAX's, the device is started before.
    """

    def __init__(self) -> None:
        import xladev
        import xladev.platforms.cpu.compiler

        self._cache = tempfile.TemporaryDirectory()
        os.environ["XLADEV_CACHE"] = self._cache.name

        self._xladev = xladev
        self._started = xladev.devices("cpu")

    def versions(self) -> dict[str, str]:
        """Of xladev and of the code generator."""
        import llvmlite

        return {"xladev": self._xladev.__version__, "llvmlite": llvmlite.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Compiles, and copies the arguments to the device."""
        if job.hlo is None:
            raise Refused("no HLO was made of it")
        module = self._xladev.load(job.hlo)
        clock = Clock()
        compiled = self._xladev.compile(module, "cpu")
        compile_s = clock.read()
        clock = Clock()
        compiled = self._xladev.compile(module, "cpu")
        warm_s = clock.read()
        arguments: list[Any] = job.fed
        if len(compiled.devices) == 1:
            arguments = [put(compiled.devices[0], a) for a in job.fed]

        def call() -> list[Array]:
            results = [a.numpy() for a in _leaves(compiled(*arguments))]
            touch(results)
            return results

        return Prepared(call, lambda kept: list(kept), memory(compiled, module), compile_s, warm_s)


def memory(compiled: Any, module: HloModule) -> dict[str, int]:
    """Bytes of values, of packed operands, of results, and of those in an argument's place."""
    signature = compiled.program.signature
    shapes = signature.result_shapes
    scratch = sum(e.signature.scratch_nbytes for e in compiled.program.executables)
    values = values_nbytes(module)
    return {
        "temporary": values,
        "packing": scratch - values,
        "results": sum(shape.nbytes for shape in shapes),
        "aliased": sum(shapes[a.result].nbytes for a in signature.aliases),
    }


def _leaves(result: Any) -> list[Any]:
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in _leaves(part)]
    return [] if result is None else [result]


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve(Xladev)
