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


def test_where_windows_see_padding_is_the_same_for_all_images() -> None:
    """No array of flags as large as the images is made, only to be read at odd strides."""
    from xladev.frontends.torch.export import exported_module

    pool = torch.nn.MaxPool2d(3, 2, 1, return_indices=True)
    module = exported_module(torch.export.export(pool, (torch.rand(2, 5, 9, 9),)))
    flags = [i for i in module.entry.instructions if i.opcode == "pad"]
    shapes = {i.shape.dims for i in flags if i.shape.element_type.name == "pred"}
    assert shapes == {(1, 1, 11, 11)}
