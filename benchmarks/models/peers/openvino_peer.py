"""OpenVINO in single precision, with a model's file; weights are constants of the graph."""

from __future__ import annotations

from benchmarks.cpu.child import Clock, Job, Prepared, serve, touch
from benchmarks.cpu.wire import Array
from benchmarks.models.peers.onnx_peer import given_inputs, onnx_file


class OpenVino:
    """The CPU plugin, set for the time of one call."""

    def __init__(self) -> None:
        import openvino

        self._openvino = openvino

    def versions(self) -> dict[str, str]:
        """Of OpenVINO."""
        return {"openvino": self._openvino.__version__.split("-")[0]}

    def prepare(self, job: Job) -> Prepared:
        """Compiles the model."""
        path = onnx_file(job)
        clock = Clock()
        settings = {
            "INFERENCE_NUM_THREADS": job.threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,  # of what is multiplied by weights of few bits
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
        }
        compiled = self._openvino.Core().compile_model(str(path), "CPU", settings)
        compile_s = clock.read()
        request = compiled.create_infer_request()
        given = [self._openvino.Tensor(each, shared_memory=False) for each in given_inputs(job)]
        for at, tensor in enumerate(given):
            request.set_input_tensor(at, tensor)
        count = len(compiled.outputs)

        def call() -> list[Array]:
            request.infer()
            results = [request.get_output_tensor(at).data.copy() for at in range(count)]
            touch(results)
            return results

        return Prepared(call, list, compile_s=compile_s)


if __name__ == "__main__":
    serve(OpenVino)
