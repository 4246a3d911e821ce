"""Cross entropy of a linear layer in chunks: in programs alone, with eager torch's gradients."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

from xladev.frontends.torch.chunked_losses import MOST_CHUNKS, chunked, without_reduction

pytestmark = pytest.mark.usefixtures("fresh")

CHUNK = 3


@pytest.mark.long
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_and_gradients_are_those_of_torch(reduction: str) -> None:
    torch.manual_seed(0)
    x, matrix, bias = torch.randn(8, 4), torch.randn(5, 4), torch.randn(5)
    target, weight = torch.tensor([0, 4, 2, 2, -100, 1, 3, 0]), torch.rand(5)
    options = LinearCrossEntropyOptions(batch_chunk_size=CHUNK)

    def loss(x: Any, matrix: Any, bias: Any) -> Any:
        return torch.nn.functional.linear_cross_entropy(
            x, matrix, target, linear_bias=bias, weight=weight, reduction=reduction, options=options
        )

    def all_of(function: Any) -> list[Any]:
        inputs = [t.clone().requires_grad_() for t in (x, matrix, bias)]
        made = function(*inputs)
        made.backward(torch.linspace(1, 2, 8) if made.dim() else torch.tensor(1.5))
        return [made.detach(), *(t.grad for t in inputs)]

    run = torch.compile(loss, backend="xladev", options={"platform": "cpu", "strict": True})
    torch.testing.assert_close(all_of(run), all_of(loss), rtol=1e-4, atol=1e-5)


def test_too_many_chunks_are_left_to_torch() -> None:
    x, matrix = torch.rand(MOST_CHUNKS + 1, 2), torch.rand(3, 2)
    target = torch.zeros(MOST_CHUNKS + 1, dtype=torch.int64)
    rest = (1, "compact", torch.float32)
    assert without_reduction(x, matrix, target, None, None, -100, *rest) is NotImplemented
    assert chunked(x, matrix, target, None, None, "sum", -100, 0.0, *rest, True) is NotImplemented
    assert without_reduction(x[:2], matrix, target[:2], None, None, -100, *rest).shape == (2,)
