"""Sparse tensors of coordinates on the device beside the host's."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("npu")


def sparse(device: str) -> Any:
    """A matrix of numbers, one of which comes twice."""
    indices = torch.tensor([[1, 0, 2, 0], [3, 1, 0, 1]], device=device)
    return torch.sparse_coo_tensor(
        indices, torch.tensor([1.0, 2.0, 3.0, 4.0], device=device), (3, 4)
    )


def rows(device: str) -> Any:
    """Rows of two numbers."""
    indices = torch.tensor([[0, 2, 0], [1, 0, 1]], device=device)
    values = torch.arange(6.0, device=device).view(3, 2)
    return torch.sparse_coo_tensor(indices, values, (3, 4, 2))


def dense(device: str, *shape: int) -> Any:
    size = int(torch.Size(shape).numel())
    return (torch.arange(float(size), device=device) % 5 - 2).view(shape)


def embedding(device: str) -> Any:
    made = torch.nn.Embedding(5, 3, sparse=True)
    with torch.no_grad():
        made.weight.copy_(dense("cpu", 5, 3) / 7)
    return made.to(device)


def gradient(device: str) -> Any:
    """Two gradients of an embedding, one added to the other."""
    made = embedding(device)
    for ids in ([1, 3, 1], [0, 1]):
        made(torch.tensor(ids, device=device)).pow(2).sum().backward()
    return made.weight.grad


def trained(device: str, kind: Any) -> Any:
    made = embedding(device)
    optimizer = kind(made.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        made(torch.tensor([1, 3, 1, step], device=device)).pow(2).sum().backward()
        optimizer.step()
    return made.weight.detach()


def gradient_of_values(device: str) -> Any:
    values = torch.ones(4, device=device, requires_grad=True)
    indices = torch.tensor([[1, 0, 2, 0], [3, 1, 0, 1]], device=device)
    torch.sparse_coo_tensor(indices, values, (3, 4)).to_dense().pow(2).sum().backward()
    return values.grad


def gradient_of_elements(device: str) -> Any:
    x = dense(device, 3, 4).requires_grad_(True)
    (x.to_sparse() * 2).to_dense().pow(2).sum().backward()
    return x.grad


def gradient_of_product(device: str) -> Any:
    x = dense(device, 4, 2).requires_grad_(True)
    torch.sparse.mm(sparse(device), x).pow(2).sum().backward()
    return x.grad


CASES: dict[str, Callable[[str], Any]] = {
    "made": sparse,
    "made without sizes": lambda d: torch.sparse_coo_tensor(
        sparse(d)._indices(), sparse(d)._values()
    ),
    "made of nothing": lambda d: torch.zeros(3, 4, layout=torch.sparse_coo, device=d),
    "coalesced": lambda d: rows(d).coalesce(),
    "indices": lambda d: rows(d).coalesce().indices(),
    "values": lambda d: rows(d).coalesce().values(),
    "to_dense": lambda d: rows(d).to_dense(),
    "to_sparse": lambda d: dense(d, 3, 4).to_sparse(),
    "to_sparse of rows": lambda d: dense(d, 3, 4).to_sparse(1),
    "sum of two": lambda d: sparse(d) + sparse(d) * 2,
    "sum with a dense one": lambda d: dense(d, 3, 4, 2) + rows(d),
    "added to a dense one": lambda d: dense(d, 3, 4, 2).add_(rows(d), alpha=2),
    "difference": lambda d: rows(d) - rows(d),
    "times a number": lambda d: 2.5 * rows(d) / 2,
    "product": lambda d: sparse(d) * sparse(d),
    "negative": lambda d: -rows(d),
    "power": lambda d: sparse(d) ** 2,
    "root": lambda d: sparse(d).sqrt(),
    "norm": lambda d: sparse(d).norm(),
    "sum": lambda d: rows(d).sum(),
    "mask": lambda d: dense(d, 3, 4).sparse_mask(sparse(d).coalesce()),
    "mask of rows": lambda d: dense(d, 3, 4, 2).sparse_mask(rows(d).coalesce()),
    "matrix product": lambda d: sparse(d) @ dense(d, 4, 2),
    "sparse.mm": lambda d: torch.sparse.mm(sparse(d), dense(d, 4, 2)),
    "transposed": lambda d: sparse(d).t(),
    "add_": lambda d: sparse(d).add_(sparse(d)),
    "mul_": lambda d: sparse(d).mul_(3),
    "zero_": lambda d: sparse(d).zero_(),
    "copies": lambda d: rows(d).clone().detach().double(),
    "to the host": lambda d: rows(d).cpu(),
    "from the host": lambda d: rows("cpu").to(d),
    "gradient of an embedding": gradient,
    "gradient of values": gradient_of_values,
    "gradient of elements": gradient_of_elements,
    "gradient of a product": gradient_of_product,
    "SparseAdam": lambda d: trained(d, torch.optim.SparseAdam),
    "SGD": lambda d: trained(d, torch.optim.SGD),
    "Adagrad": lambda d: trained(d, torch.optim.Adagrad),
}


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_host(name: str) -> None:
    wanted, found = CASES[name]("cpu"), CASES[name]("npu")
    assert found.layout is wanted.layout and found.dtype is wanted.dtype
    assert found.device.type == ("cpu" if name == "to the host" else "npu")
    if wanted.is_sparse:
        assert found.is_coalesced() == wanted.is_coalesced()
        assert (found.sparse_dim(), found.dense_dim()) == (wanted.sparse_dim(), wanted.dense_dim())
        wanted, found = wanted.to_dense(), found.to_dense()
    torch.testing.assert_close(found.cpu(), wanted)


def test_a_product_with_a_dense_tensor_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        sparse("npu").t() * dense("npu", 4, 3)


REFUSED: dict[str, Callable[[str], Any]] = {
    "minus a number": lambda d: sparse(d) - 1,
    "plus a number": lambda d: sparse(d) + 1.5,
    "a number plus one": lambda d: 1 + sparse(d),
    "a number minus one": lambda d: 1 - sparse(d),
    "rsub": lambda d: torch.rsub(sparse(d), 1),
    "sub_ of a number": lambda d: sparse(d).sub_(1),
    "add_ of a number": lambda d: sparse(d).add_(1),
    "out=": lambda d: torch.add(sparse(d), 1, out=sparse(d)),
    "plus a tensor without dimensions": lambda d: sparse(d) + torch.tensor(2.0, device=d),
    "plus a dense one": lambda d: sparse(d) + dense(d, 3, 4),
    "minus a dense one": lambda d: sparse(d) - dense(d, 3, 4),
    "a row plus one": lambda d: dense(d, 4) + sparse(d),
    "other sizes": lambda d: sparse(d) + torch.zeros(4, 3, layout=torch.sparse_coo, device=d),
    "other sparse dimensions": lambda d: sparse(d) + dense(d, 3, 4).to_sparse(1),
    "divided by another": lambda d: sparse(d) / sparse(d),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_the_words_of_the_host(name: str) -> None:
    with pytest.raises(RuntimeError) as wanted:
        REFUSED[name]("cpu")
    with pytest.raises(RuntimeError) as found:
        REFUSED[name]("npu")
    assert str(wanted.value) in str(found.value)


def test_printing() -> None:
    text = repr(sparse("npu").coalesce())
    assert "nnz=3" in text and "layout=torch.sparse_coo" in text and "npu:0" in text


def test_nothing_is_left() -> None:
    import gc

    trained("npu", torch.optim.SparseAdam)
    gc.collect()
    before = torch.npu.memory_allocated()
    trained("npu", torch.optim.SparseAdam)
    gc.collect()
    assert torch.npu.memory_allocated() <= before
