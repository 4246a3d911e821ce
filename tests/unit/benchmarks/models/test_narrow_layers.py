"""Linear layers in 8 and 4 bits, beside those in f32."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from benchmarks.models.narrow_layers import NarrowLinear, narrowed, read_nbytes  # noqa: E402
from xladev.client import compile as compile_for  # noqa: E402
from xladev.frontends.torch.export import exported_module, exported_weights  # noqa: E402


@pytest.mark.parametrize(("bits", "group", "nbytes"), [(8, 0, 8448), (4, 32, 5120), (4, 64, 4608)])
def test_numbers_are_near_the_weights(bits: int, group: int, nbytes: int) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(128, 64, bias=False)
    layer = NarrowLinear(linear, bits, group)
    made = layer(torch.eye(128)).detach().T
    step = layer.scales.repeat_interleave(layer.group, dim=1)
    assert (made - linear.weight.detach()).abs().le(step / 2 * 1.0001).all()
    assert read_nbytes(layer) == nbytes


def test_all_linear_layers_of_a_module_are_replaced() -> None:
    model = torch.nn.Sequential(
        torch.nn.Embedding(10, 64),
        torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False)),
    )
    made = narrowed(model, 4, 32)
    assert isinstance(made[1][0], NarrowLinear)
    assert read_nbytes(made) == 64 * 32 // 2 + 4 * 32 * 2


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 32)])
def test_layers_become_hlo(bits: int, group: int) -> None:
    torch.manual_seed(0)
    layer, x = NarrowLinear(torch.nn.Linear(128, 64, bias=False), bits, group), torch.randn(1, 128)
    program = torch.export.export(layer, (x,))
    compiled = compile_for(exported_module(program, weights="parameters"), "cpu")
    (got,) = compiled(*(a.numpy() for a in (*exported_weights(program).values(), x)))
    assert abs(got.numpy() - layer(x).detach().numpy()).max() < 1e-5
