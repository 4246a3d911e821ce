"""Pooling whose arguments are not of the operator database, beside eager torch."""

import pytest

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("fresh")


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_windows_with_more_samples_than_arrays(rank: int) -> None:
    x, samples = torch.rand(4, *[7] * rank), torch.rand(2, 4, rank)
    pool = getattr(torch.nn.functional, f"fractional_max_pool{rank}d")

    def function(x: "torch.Tensor", samples: "torch.Tensor") -> "torch.Tensor":
        return pool(x, 2, output_size=3, _random_samples=samples)

    made = torch.compile(function, backend="xladev", options={"platform": "cpu", "strict": True})
    assert torch.equal(made(x, samples), function(x, samples))
