"""Products whose rows are cut into groups at run time, beside eager torch's."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import records

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh")]

ENDS = [3, 3, 7, 10]
"""Where four groups of ten rows end; the second one has none."""


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    return torch.compile(function, backend="xladev", fullgraph=True, options={"platform": "cpu"})


def gradients(function: Callable[..., object], x: object, stack: object) -> list[object]:
    ends = torch.tensor(ENDS, dtype=torch.int32)
    leaves = [each.clone().requires_grad_() for each in (x, stack)]
    made = function(*leaves, ends)
    (made * torch.linspace(-1, 1, made.shape[-1]).to(made.dtype)).sum().backward()
    return [made.detach(), *(leaf.grad for leaf in leaves)]


def check(function: Callable[..., object], dtype: object = torch.float32) -> None:
    x, stack = torch.randn(10, 8).to(dtype), torch.randn(4, 8, 16).to(dtype)
    wanted = gradients(function, x, stack)
    found = gradients(compiled(function), x, stack)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert records.compiled_graphs()
    assert not records.fallbacks()


def test_groups_of_rows_have_matrices_of_their_own() -> None:
    check(lambda x, stack, ends: torch._grouped_mm(x, stack, offs=ends), torch.bfloat16)


def test_groups_of_rows_as_transformers_names_them() -> None:
    pytest.importorskip("transformers.integrations.moe")
    check(torch.ops.transformers.grouped_mm_fallback)
