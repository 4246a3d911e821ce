"""Functions of matrices, beside those in higher precision."""

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import adapter
from xladev.frontends.torch.backend import decompositions, graph_compilers
from xladev.frontends.torch.settings import settings_of

pytestmark = pytest.mark.long


@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_matrix_exp_of_f32_rounds_no_more_than_torchs(scale: float) -> None:
    torch.manual_seed(0)
    compilers = graph_compilers(settings_of(None, {"platform": "cpu"}))
    found = adapter.traced_function(torch.matrix_exp, compilers, decompositions())
    x = torch.randn(3, 5, 5) * scale
    exact = torch.matrix_exp(x.double())
    ours, eagers = (float((each(x) - exact).abs().max()) for each in (found, torch.matrix_exp))
    assert ours <= 2 * eagers
