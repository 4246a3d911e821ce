"""One first call in this process: ``python -m benchmarks.models.first_call LIBRARY HLO INPUTS``.

Prints one line of JSON: seconds and memory of each step, and a digest of the results. LIBRARY is
``xladev`` or ``xla``. Steps are the same for both: what is imported and the device started, the
serialized proto read, the program compiled, the first call with arguments on the device.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu.child import Clock, peak_nbytes
from benchmarks.cpu.wire import Array, load_arrays

STEPS = ("start", "load", "compile", "call")
Call = Callable[[], list[Array]]


class Steps:
    """What steps took: wall and CPU seconds, and the process's peak of memory at their ends."""

    def __init__(self) -> None:
        self.taken: dict[str, tuple[float, float, int]] = {}
        self._clock = Clock()

    def end(self, name: str) -> None:
        """A step is over; the next one begins."""
        self.taken[name] = (*self._clock.read(), peak_nbytes())
        self._clock = Clock()

    def skip(self) -> None:
        """What was done since the last step counts for none."""
        self._clock = Clock()


def xladev_call(hlo: Path, inputs: list[Array], steps: Steps) -> Call:
    """xladev's; its cache is where the environment says."""
    import xladev
    import xladev.platforms.cpu.compiler
    from xladev.runtime.array import put

    xladev.devices("cpu")
    steps.end("start")
    module = xladev.load(hlo)
    steps.end("load")
    compiled = xladev.compile(module, "cpu")
    steps.end("compile")
    arguments: list[Any] = [put(compiled.devices[0], a) for a in inputs]
    steps.skip()

    def call() -> list[Array]:
        results = compiled(*arguments)
        return [a.numpy() for a in (results if isinstance(results, tuple) else (results,))]

    return call


def xla_call(hlo: Path, inputs: list[Array], steps: Steps) -> Call:
    """XLA:CPU's, by JAX's client."""
    import jax
    import numpy as np
    from jax._src import xla_bridge
    from jaxlib import _jax

    jax.config.update("jax_enable_x64", True)
    client = xla_bridge.get_backend("cpu")
    device = client.local_devices()[0]
    steps.end("start")
    program = _jax.mlir.hlo_to_stablehlo(hlo.read_bytes())
    steps.end("load")
    executable = client.compile_and_load(program, _jax.DeviceList((device,)), _jax.CompileOptions())
    steps.end("compile")
    arguments = [jax.device_put(a, device) for a in inputs]
    steps.skip()

    def call() -> list[Array]:
        rows = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [np.asarray(row[0]) for row in rows]

    return call


LIBRARIES = {"xladev": xladev_call, "xla": xla_call}


def main(arguments: Sequence[str]) -> None:
    """Makes the call."""
    library, hlo, inputs = arguments
    given = load_arrays(Path(inputs))
    steps = Steps()
    call = LIBRARIES[library](Path(hlo), given, steps)
    results = call()
    steps.end("call")
    digest = hashlib.sha256(b"".join(a.tobytes() for a in results)).hexdigest()[:16]
    print(json.dumps({"steps": steps.taken, "digest": digest}))


if __name__ == "__main__":
    main(sys.argv[1:])
