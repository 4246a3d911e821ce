"""Steps of training: HLO and PyTorch give the same loss and gradients, in one order."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import xladev  # noqa: E402
from benchmarks.models.training import ClassLoss, training_call  # noqa: E402
from benchmarks.models.training_hlo import training_module  # noqa: E402


def network() -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)]
    return ClassLoss(nn.Sequential(*parts)).train()


def test_each_call_has_its_own_gradients() -> None:
    module, inputs = network(), (torch.rand(8, 6), torch.arange(8) % 3)
    call = training_call(module, module, inputs)
    first, second = call(), call()
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b)
        assert a.data_ptr() != b.data_ptr()


@pytest.mark.long
def test_hlo_gives_what_torch_gives() -> None:
    inputs = (torch.rand(8, 6), torch.arange(8) % 3)
    module = network()
    hlo, held = training_module(module, inputs)
    assert len(hlo.entry.parameters) == len(held) + len(inputs)
    assert [tuple(each.shape) for each in held[:2]] == [(5, 6), (5,)]
    results = xladev.compile(hlo, "cpu")(*[each.numpy() for each in (*held, *inputs)])
    expected = training_call(module, module, inputs)()
    assert len(results) == len(expected) == 1 + 6
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-6)
    assert float(expected[0]) > 0
