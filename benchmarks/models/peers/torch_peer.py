"""PyTorch with a model: ``python -m benchmarks.models.peers.torch_peer [eager|compile|freeze]``."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.cpu.child import Clock, Job, Prepared, Refused, serve
from benchmarks.cpu.peers.torch_peer import array_of, tensor_of
from benchmarks.models.peers.onnx_peer import given_inputs

SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {},
    "compile": {"mode": "max-autotune-no-cudagraphs"},
    "freeze": {"options": {"freezing": True, "max_autotune": True}},
}


class TorchModel:
    """PyTorch: op by op, compiled with all tuning, or with weights frozen as well."""

    def __init__(self) -> None:
        import torch

        from benchmarks.models import networks
        from benchmarks.models.training import training_call

        self._torch = torch
        self._training_call = training_call
        self._networks = networks
        self._settings = SETTINGS[sys.argv[1]]

    def versions(self) -> dict[str, str]:
        """Of PyTorch."""
        return {"torch": self._torch.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Compiles if so started; the first call, which compiles, counts as compile time."""
        torch = self._torch
        is_training = job.parameters["training"]
        if is_training and sys.argv[1] == "freeze":
            raise Refused("weights that are trained are not constant")
        torch.set_num_threads(job.threads)
        module, _ = self._networks.make(job.parameters["network"], job.parameters["batch"])
        arguments = [tensor_of(each) for each in given_inputs(job)]
        clock = Clock()
        run = torch.compile(module, dynamic=False, **self._settings) if self._settings else module

        def infer() -> list[Any]:
            with torch.no_grad():
                result = run(*arguments)
            result[(0,) * result.dim()].item()
            return [result]

        call = self._training_call(module, run, arguments) if is_training else infer
        compile_s = None
        if self._settings:
            call()
            compile_s = clock.read()
        return Prepared(call, lambda kept: [array_of(t) for t in kept], compile_s=compile_s)


if __name__ == "__main__":
    serve(TorchModel)
