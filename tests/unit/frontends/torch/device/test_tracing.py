"""Functions are traced without their writes."""

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch.device import tracing

pytestmark = pytest.mark.usefixtures("npu")


def test_a_traced_function_is_pure() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0].add_(1)
        return y

    with tracing.fake_tensors():
        graph = tracing.traced(function, [torch.empty(2, 2)], {})
    names = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert "aten.add.Tensor" in names and "aten.add_.Tensor" not in names
