"""ONNX Runtime, with graphs built here; weights are constants of the graph, its best setting."""

from __future__ import annotations

from typing import Any

from benchmarks.cpu.child import Clock, Job, Prepared, Refused, serve, touch
from benchmarks.cpu.wire import Array


class OnnxRuntime:
    """The CPU execution provider."""

    def __init__(self) -> None:
        import onnxruntime

        from benchmarks.cpu.functions import onnx_graphs

        self._runtime = onnxruntime
        self._graphs = onnx_graphs

    def versions(self) -> dict[str, str]:
        """Of ONNX Runtime."""
        return {"onnxruntime": self._runtime.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Builds the graph and a session."""
        make = self._graphs.GRAPHS.get(job.kind)
        if make is None or any(a.dtype.name == "bfloat16" for a in job.inputs):
            raise Refused("not written for ONNX Runtime")
        graph = make(job.parameters, job.inputs)
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        clock = Clock()
        session = self._runtime.InferenceSession(
            graph.model, options, providers=["CPUExecutionProvider"]
        )
        compile_s = clock.read()
        fed = graph.fed

        def call() -> list[Array]:
            results: list[Array] = session.run(None, fed)
            touch(results)
            return results

        def results(kept: Any) -> list[Array]:
            return [r.transpose(0, 2, 3, 1) if graph.is_nchw else r for r in kept]

        return Prepared(call, results, compile_s=compile_s)


if __name__ == "__main__":
    serve(OnnxRuntime)
