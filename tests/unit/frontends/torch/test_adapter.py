"""Versions of torch that the adapter was written for."""

import pytest

torch = pytest.importorskip("torch")

from xladev.errors import UnsupportedError
from xladev.frontends.torch import adapter


def test_another_version_is_one_clear_message() -> None:
    with pytest.raises(UnsupportedError) as caught:
        adapter.check_version("2.99.0")
    assert "torch 2.99.0 is installed" in str(caught.value)
    assert "pip install 'torch==2.13.0'" in str(caught.value)


def test_the_version_tested_is_taken() -> None:
    adapter.check_version("2.13.0+cpu")


def test_nothing_that_is_lowered_is_decomposed_first() -> None:
    names = {str(op) for op in adapter.decompositions({"aten.gelu.default": None})}
    assert "aten.gelu.default" not in names
    assert "aten.addcmul.default" in names


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_weight_norms_gradient_is_torchs(dim: int) -> None:
    torch.manual_seed(0)
    gradient, v = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    others = [d for d in range(3) if d != dim % 3]
    norms = v.square().sum(others, keepdim=True).sqrt()
    g = torch.rand_like(norms)
    x, y = v.clone().requires_grad_(), g.clone().requires_grad_()
    (y * x / x.square().sum(others, keepdim=True).sqrt()).backward(gradient)
    operator = torch.ops.aten._weight_norm_interface_backward.default
    found = adapter.decompositions({})[operator](gradient, v, g, norms, dim)
    torch.testing.assert_close(found, (x.grad, y.grad))
