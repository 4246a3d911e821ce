"""Lowerings of recurrent layers beside torch's kernels of the same operators."""

import pytest

torch = pytest.importorskip("torch")

from tests.unit.frontends.torch.test_recurrent_steps import KINDS, arguments
from xladev.frontends.torch import adapter, records
from xladev.frontends.torch.backend import decompositions, graph_compilers
from xladev.frontends.torch.settings import settings_of


@pytest.mark.long
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_are_those_of_the_kernels(kind: str, back: bool) -> None:
    records.forget()
    operator, given = arguments(kind, back=back)
    tensors = [each for each in given if isinstance(each, torch.Tensor)]

    def function(*taken: object) -> object:
        left = iter(taken)
        full = [next(left) if isinstance(each, torch.Tensor) else each for each in given]
        return operator(*full)[:2]

    settings = settings_of(None, {"platform": "cpu"})
    run = adapter.traced_function(function, graph_compilers(settings), decompositions())
    found, wanted = (list(each(*tensors)) for each in (run, function))
    for results in (found, wanted):
        loss = sum((r * torch.linspace(-1, 1, r.shape[-1])).sum() for r in results)
        results.extend(torch.autograd.grad(loss, tensors, allow_unused=True))
    torch.testing.assert_close(found, wanted)
    assert not records.fallbacks()
