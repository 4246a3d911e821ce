"""Writing where a mask is true, and tables whose rows are kept short, beside eager torch."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("fresh")


def assert_same(function: Any, *args: Any) -> None:
    """A program gives what eager torch does, and torch runs no part of it."""
    made = torch.compile(function, backend="xladev", options={"platform": "cpu", "strict": True})
    torch.testing.assert_close(made(*args), function(*args))


MASK = torch.tensor([[True, False, True], [False, True, True]])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("before", "values"),
    [
        ((), (4, 5)),  # a row for each true element, in order
        ((), (5,)),  # one row for all of them
        ((), (1, 5)),
        ((2,), (2, 4, 5)),
        ((2,), (4, 1)),
        ((2,), ()),
    ],
)
def test_masks_put_what_torch_does(
    before: tuple[int, ...], values: tuple[int, ...], accumulate: bool
) -> None:
    x = torch.rand(*before, 2, 3, 5)
    places = (*[None] * len(before), MASK)

    def function(x: Any, v: Any) -> Any:
        return torch.ops.aten.index_put(x, places, v, accumulate)

    assert_same(function, x, torch.rand(values))


def test_a_mask_without_true_elements_puts_nothing() -> None:
    x, none = torch.rand(3, 2), torch.zeros(3, dtype=torch.bool)
    assert_same(lambda x, v: torch.index_put(x, (none,), v), x, torch.rand(0, 2))


@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
def test_rows_that_are_named_are_kept_short(order: float) -> None:
    def function(weight: Any, index: Any) -> Any:
        table = weight.clone()
        found = torch.nn.functional.embedding(index, table, max_norm=1.0, norm_type=order)
        return found, table

    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [-6.0, 8.0]])
    assert_same(function, weight, torch.tensor([[0, 1], [1, 0]]))
