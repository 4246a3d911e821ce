"""One framework of `benchmarks.gpu_peers`, in a process of its own: a JSON line for each row."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_workloads import Workload, workloads

Call = Callable[[], Any]
GROUPS = 5


class JaxPeer:
    """XLA:GPU; writes the HLO of each row for xladev."""

    def __init__(self, on_cpu: bool, folder: Path) -> None:
        import jax

        self._jax, self._folder = jax, folder
        device = jax.devices()[0]
        if not on_cpu and device.platform not in ("gpu", "cuda"):
            raise SystemExit("jax sees no GPU")
        self.version = f"jax {jax.__version__} on {device.device_kind}"

    def prepare(self, w: Workload) -> Call:
        """A call of the row."""
        jnp = self._jax.numpy
        values = [jnp.asarray(a.values(n)).astype(a.dtype) for n, a in enumerate(w.arguments)]
        function = self._jax.jit(lambda *x: w.functions["jax"](jnp, *x))
        found = function.lower(*values).compiler_ir(dialect="hlo")
        proto = found.as_serialized_hlo_module_proto()
        (self._folder / f"{w.name}.pb").write_bytes(proto)
        return lambda: function(*values)

    def wait(self, value: Any) -> None:
        """Until it is computed."""
        self._jax.block_until_ready(value)

    def numpy(self, value: Any) -> np.ndarray:
        """As f32."""
        return np.asarray(value).astype(np.float32)


class TorchPeer:
    """torch, eager or compiled."""

    compiles = False

    def __init__(self, on_cpu: bool, folder: Path) -> None:
        import torch

        self._torch, self._device = torch, "cpu" if on_cpu else "cuda"
        if not on_cpu and not torch.cuda.is_available():
            raise SystemExit("torch sees no GPU")
        self.version = f"torch {torch.__version__}"

    def prepare(self, w: Workload) -> Call:
        """A call of the row."""
        torch = self._torch
        values = [
            torch.from_numpy(a.values(n)).to(self._device, getattr(torch, a.dtype))
            for n, a in enumerate(w.arguments)
        ]
        function = w.functions["torch"]
        if self.compiles:
            function = torch.compile(function, dynamic=False)
        return lambda: function(torch, *values)

    def wait(self, value: Any) -> None:
        """Until it is computed."""
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def numpy(self, value: Any) -> np.ndarray:
        """As f32."""
        found: np.ndarray = value.detach().float().cpu().numpy()
        return found


class CompiledTorchPeer(TorchPeer):
    """torch.compile."""

    compiles = True


class CupyPeer:
    """CuPy, operation by operation."""

    def __init__(self, on_cpu: bool, folder: Path) -> None:
        if on_cpu:
            raise SystemExit("CuPy needs a GPU")
        import cupy

        cupy.cuda.runtime.getDeviceCount()
        self._cupy = cupy
        self.version = f"cupy {cupy.__version__}"

    def prepare(self, w: Workload) -> Call:
        """A call of the row."""
        values = [
            self._cupy.asarray(a.values(n).astype(a.dtype)) for n, a in enumerate(w.arguments)
        ]
        return lambda: w.functions["cupy"](self._cupy, *values)

    def wait(self, value: Any) -> None:
        """Until it is computed."""
        self._cupy.cuda.runtime.deviceSynchronize()

    def numpy(self, value: Any) -> np.ndarray:
        """As f32."""
        found: np.ndarray = self._cupy.asnumpy(value).astype(np.float32)
        return found


class XladevPeer:
    """xladev, on the HLO that JAX's child wrote; the emulator without a GPU."""

    def __init__(self, on_cpu: bool, folder: Path) -> None:
        from benchmarks.gpu_adapter import gpu_adapter

        self._adapter = gpu_adapter("cpu" if on_cpu else "cuda")
        self._device = self._adapter._device
        self._folder = folder
        self.version = self._adapter.version

    def prepare(self, w: Workload) -> Call:
        """A call of the row; arguments are on the device beforehand."""
        from xladev import client
        from xladev.hlo.proto import read_module
        from xladev.runtime.array import put

        module = read_module((self._folder / f"{w.name}.pb").read_bytes())
        compiled = client.compile(module, self._adapter._name)
        shapes = [p.shape for p in module.entry.parameters]
        values = [
            put(self._device, a.values(n).astype(s.element_type.np))
            for n, (a, s) in enumerate(zip(w.arguments, shapes, strict=True))
        ]
        return lambda: compiled(*values)

    def wait(self, value: Any) -> None:
        """Until it is computed."""
        self._adapter.sync()

    def numpy(self, value: Any) -> np.ndarray:
        """As f32."""
        first = value[0] if isinstance(value, (tuple, list)) else value
        return np.asarray(first).astype(np.float32)


PEERS: dict[str, Any] = {
    "jax": JaxPeer,
    "xladev": XladevPeer,
    "torch": TorchPeer,
    "torch.compile": CompiledTorchPeer,
    "cupy": CupyPeer,
}
"""In the order in which they run: xladev reads what JAX wrote."""
FUNCTION_OF = {"xladev": "jax", "torch.compile": "torch"}
"""Whose function a peer runs, if not its own."""


def timed(call: Call, wait: Callable[[Any], None], target_s: float) -> tuple[Any, float, float]:
    """A result, milliseconds of a call (the best group's), and seconds of the first call."""
    begin = time.perf_counter()
    value = call()
    wait(value)
    first_s = time.perf_counter() - begin
    begin = time.perf_counter()
    wait(call())
    count = max(1, min(2000, int(target_s / max(time.perf_counter() - begin, 1e-6))))
    best = float("inf")
    for _ in range(GROUPS):
        begin = time.perf_counter()
        for _ in range(count):
            last = call()
        wait(last)
        best = min(best, (time.perf_counter() - begin) / count)
    return value, best * 1e3, first_s


def main(arguments: Sequence[str]) -> None:
    """``peer folder small on_cpu rows...``: times rows, or all of them."""
    name, folder, small, on_cpu, *wanted = arguments
    peer = PEERS[name](on_cpu == "1", Path(folder))
    print(json.dumps({"version": peer.version}), flush=True)
    for w in workloads(small == "1"):
        if (wanted and w.name not in wanted) or FUNCTION_OF.get(name, name) not in w.functions:
            continue
        print(json.dumps(_row(peer, w, 0.002 if small == "1" else 0.04)), flush=True)


def _row(peer: Any, w: Workload, target_s: float) -> dict[str, Any]:
    try:
        value, ms, first_s = timed(peer.prepare(w), peer.wait, target_s)
        flat = peer.numpy(value).reshape(-1)
        sample = flat[:: max(1, flat.size // 64)][:64]
    except Exception as e:  # noqa: BLE001 (reported; other rows go on)
        return {"row": w.name, "failed": f"{type(e).__name__}: {e}"[:200]}
    return {
        "row": w.name, "ms": ms, "first_s": first_s, "sample": [float(x) for x in sample],
    }  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
