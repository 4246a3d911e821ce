"""Diagonals are filled, and primitives of torch give views, as on the host."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import _prims, _refs

pytestmark = pytest.mark.usefixtures("npu")

DIAGONALS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any], bool]] = {
    "a matrix": ((3, 4), lambda x: x, False),
    "a transposed one": ((3, 4), lambda x: x.t(), False),
    "columns": ((6, 6), lambda x: x[::2, 1::2], False),
    "a cube, permuted": ((3, 3, 3), lambda x: x.permute(2, 0, 1), False),
    "four dimensions": ((2, 2, 2, 2), lambda x: x, False),
    "a tall one": ((9, 2), lambda x: x, False),
    "a tall one, wrapped": ((9, 2), lambda x: x, True),
    "a tall one in rows, wrapped": ((9, 2), lambda x: x[1:], True),
    "a transposed one, wrapped": ((3, 7), lambda x: x.t(), True),
    "one that is a row longer, wrapped": ((4, 3), lambda x: x, True),
    "a wide one, wrapped": ((2, 5), lambda x: x, True),
    "an expanded one": ((3,), lambda x: x.expand(3, 3), False),
    "a vector": ((3,), lambda x: x, False),
    "different sizes": ((2, 3, 3), lambda x: x, False),
    "nothing": ((0, 3), lambda x: x, True),
}


@pytest.mark.parametrize("name", DIAGONALS)
def test_a_diagonal_is_filled(name: str) -> None:
    sizes, view, wrap = DIAGONALS[name]
    outcomes = []
    for device in ("cpu", "npu"):
        base = torch.zeros(sizes, device=device, requires_grad=True)
        written = base * 1
        try:
            view(written).fill_diagonal_(5, wrap=wrap)
            (written.sum() * 2).backward()
            outcomes.append((written.tolist(), base.grad.tolist()))
        except RuntimeError as error:
            outcomes.append((str(error).splitlines()[0], written.tolist()))
    assert outcomes[0] == outcomes[1]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: _prims.transpose(x, (1, 0)),
    "squeeze": lambda x: _prims.squeeze(x[:1], (0,)),
    "broadcast_in_dim": lambda x: _prims.broadcast_in_dim(x, (2, 2, 3), (1, 2)),
    "split_dim": lambda x: _prims.split_dim(x.view(6), 0, 2),
    "collapse_view": lambda x: _prims.collapse_view(x, 0, 1),
    "as_strided": lambda x: _prims.as_strided(x, (3, 2), (1, 3), 0),
    "softmax of references": lambda x: _refs.softmax(x, 0),
    "unsqueeze of references": lambda x: _refs.unsqueeze(x, 0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_primitive_of_torch(name: str) -> None:
    wanted, found = (
        VIEWS[name](torch.arange(6.0, device=device).view(2, 3)) for device in ("cpu", "npu")
    )
    torch.testing.assert_close(found.cpu(), wanted)
    assert found.stride() == wanted.stride()


def test_what_is_written_to_a_primitives_view_is_in_its_base() -> None:
    x = torch.zeros(2, 3, device="npu")
    _prims.transpose(x, (1, 0))[0].fill_(1)
    assert x.tolist() == [[1, 0, 0], [1, 0, 0]]
