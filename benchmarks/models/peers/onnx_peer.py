"""ONNX Runtime, with a model's file; weights are constants of the graph, its best setting."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cpu.child import Clock, Job, Prepared, Refused, serve, touch
from benchmarks.cpu.wire import Array


class OnnxModel:
    """The CPU execution provider."""

    def __init__(self) -> None:
        import onnxruntime

        self._runtime = onnxruntime

    def versions(self) -> dict[str, str]:
        """Of ONNX Runtime."""
        return {"onnxruntime": self._runtime.__version__}

    def prepare(self, job: Job) -> Prepared:
        """Makes a session."""
        path = onnx_file(job)
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        clock = Clock()
        session = self._runtime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        compile_s = clock.read()
        names = [given.name for given in session.get_inputs()]
        fed = dict(zip(names, given_inputs(job), strict=True))

        def call() -> list[Array]:
            results: list[Array] = session.run(None, fed)
            touch(results)
            return results

        return Prepared(call, list, compile_s=compile_s)


def onnx_file(job: Job) -> Path:
    """The model's file.

    Raises:
        Refused: it has none.
    """
    path = Path(job.parameters["folder"]) / "model.onnx"
    if not path.exists():
        raise Refused("it has no ONNX file")
    return path


def given_inputs(job: Job) -> list[Array]:
    """The arguments after the weights."""
    return job.inputs[-job.parameters["given"] :]


if __name__ == "__main__":
    serve(OnnxModel)
