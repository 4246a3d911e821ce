"""PyTorch, eager or compiled: ``python -m benchmarks.cpu.peers.torch_peer [eager|compile]``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.cpu.child import Clock, Job, Prepared, Refused, serve
from benchmarks.cpu.wire import Array


class Torch:
    """PyTorch, by default op by op."""

    def __init__(self) -> None:
        import torch

        from benchmarks.cpu.functions import torch_functions

        self._torch = torch
        self._functions = torch_functions
        self._compiled = sys.argv[1:] == ["compile"]

    def versions(self) -> dict[str, str]:
        """Of PyTorch."""
        return {"torch": self._torch.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Compiles if so started; the first call, which compiles, counts as compile time."""
        torch = self._torch
        torch.set_num_threads(job.threads)
        make = self._functions.FUNCTIONS.get(job.kind)
        if make is None:
            raise Refused("not written for PyTorch")
        function = make(job.parameters)
        arguments = self._functions.adapted(job.kind, [tensor_of(a) for a in job.inputs])
        clock = Clock()
        if self._compiled:
            torch._dynamo.reset()
            function = torch.compile(function, dynamic=False)
        inference = not job.kind.endswith(("step", "backward"))

        def call() -> list[Any]:
            with torch.inference_mode(inference):
                result = function(*arguments)
            results = [*result] if isinstance(result, tuple) else [result]
            for tensor in results:
                if tensor.numel():
                    tensor[(0,) * tensor.dim()].item()
            return results

        compile_s = None
        if self._compiled:
            call()
            compile_s = clock.read()
        kind = job.kind
        return Prepared(
            call,
            lambda kept: [array_of(t) for t in self._functions.restored(kind, kept)],
            compile_s=compile_s,
        )


def tensor_of(array: Array) -> Any:
    """A tensor of an array's memory; bf16 of ml_dtypes' type."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(tensor: Any) -> Array:
    """A tensor's elements; floats of 16 bits as f32, which NumPy has."""
    if tensor.element_size() == 2 and tensor.is_floating_point():
        tensor = tensor.float()
    array: Array = tensor.detach().contiguous().numpy()
    return array


if __name__ == "__main__":
    serve(Torch)
