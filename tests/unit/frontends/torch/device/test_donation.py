"""Updates take no more memory, and never write to what somebody sees."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("npu")
SIZE = 1 << 17


def address(x: Any) -> int:
    return int(x.numpy().ctypes.data)


def made() -> Any:
    from xladev import torch as door

    x = torch.arange(SIZE, dtype=torch.float32, device="npu")
    door.step()
    return x


@pytest.mark.parametrize("size", [SIZE, 8])
def test_an_update_is_where_the_tensor_was_if_it_is_large(size: int) -> None:
    from xladev import torch as door

    x = torch.ones(size, device="npu")
    places = {address(x)}
    for _ in range(3):
        x.mul_(2).add_(1)
        door.step()
        places.add(address(x))
    assert (len(places) == 1) == (size == SIZE)
    assert x.tolist() == [15.0] * size


def test_what_numpy_sees_stays() -> None:
    x = made()
    seen = x.numpy()
    kept = seen.copy()
    x.add_(1)
    assert (x.cpu().numpy() == kept + 1).all() and (seen == kept).all()


def test_what_another_tensor_has_stays() -> None:
    x = made()
    y = x.clone()
    z = torch.empty_like(x).copy_(x)
    for _ in range(2):
        x.add_(1)
        assert x[:2].tolist() != y[:2].tolist()
    assert y.tolist() == z.tolist() == list(range(SIZE)) and x[1].item() == 3


def test_what_is_read_beside_the_update_is_as_it_was() -> None:
    x, y = made(), made()
    reversed_ = x.flip(0) * 2
    x.add_(y.flip(0))
    y.mul_(x)
    whole = np.arange(SIZE, dtype=np.float32)
    assert (reversed_.cpu().numpy() == whole[::-1] * 2).all()
    assert (x.cpu().numpy() == SIZE - 1).all()
    assert (y.cpu().numpy() == whole * (SIZE - 1)).all()


def test_an_array_that_is_kept_by_dlpack_stays() -> None:
    x = made()
    seen = np.from_dlpack(x)
    x.zero_().add_(5)
    assert x[3].item() == 5 and seen[3] == 3


def test_training_takes_the_weights_four_times() -> None:
    from xladev import torch as door

    start = torch.npu.memory_allocated()
    model = torch.nn.Linear(512, 512, bias=False).to("npu")
    nbytes = model.weight.numel() * 4
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.ones(4, 512, device="npu")
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        door.step()
        assert torch.npu.memory_allocated() - start < 4.1 * nbytes
