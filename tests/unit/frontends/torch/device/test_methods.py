"""Methods that would look at memory do what scripts expect of a device."""

import io
import tempfile
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from xladev.frontends.torch.device import methods

pytestmark = pytest.mark.usefixtures("npu")


def test_arrays_of_the_host_share_memory_and_cannot_be_written_to() -> None:
    x = torch.arange(6.0, device="npu").reshape(2, 3) * 2
    array = x.numpy()
    assert array.tolist() == [[0, 2, 4], [6, 8, 10]] and not array.flags.writeable
    assert np.shares_memory(array, x.numpy())
    assert np.asarray(x[1]).tolist() == [6, 8, 10]
    x.zero_()
    assert array.sum() == 30 and x.numpy().sum() == 0
    with pytest.raises(RuntimeError, match="requires grad"):
        x.requires_grad_().numpy()
    assert x.numpy(force=True).tolist() == [[0] * 3] * 2


def test_where_the_host_does_not_address_the_memory_numpy_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods, "_is_readable", lambda _: False)
    with pytest.raises(TypeError, match="can't convert npu:0 device type tensor to numpy"):
        torch.ones(2, device="npu").numpy()


def test_arrays_cross_by_dlpack() -> None:
    x = torch.ones(3, device="npu") + 1
    assert torch.from_dlpack(x).tolist() == [2, 2, 2]
    assert np.from_dlpack(x).tolist() == [2, 2, 2]
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(x.requires_grad_())
    assert torch.from_dlpack(np.ones(2)).tolist() == [1, 1]


def test_a_loader_that_pins_memory() -> None:
    data = TensorDataset(torch.arange(6.0))
    loader = DataLoader(data, batch_size=2, pin_memory=True)
    found = [batch.to("npu", non_blocking=True).tolist() for (batch,) in loader]
    assert found == [[0, 1], [2, 3], [4, 5]]


PINNED: dict[str, Any] = {
    "empty": lambda: torch.empty(2, device="npu", pin_memory=True),
    "empty_strided": lambda: torch.empty_strided((2, 2), (1, 2), device="npu", pin_memory=True),
    "zeros": lambda: torch.zeros(2, device="npu", pin_memory=True),
    "arange": lambda: torch.arange(2, device="npu", pin_memory=True),
    "rand": lambda: torch.rand(2, device="npu", pin_memory=True),
    "zeros_like": lambda: torch.zeros_like(torch.ones(2, device="npu"), pin_memory=True),
    "new_full": lambda: torch.ones(2, device="npu").new_full((2,), 1.0, pin_memory=True),
    "pin_memory": lambda: torch.ones(2, device="npu").pin_memory(),
}


@pytest.mark.parametrize("name", PINNED)
def test_a_tensor_of_the_device_is_not_pinned(name: str) -> None:
    """Words: of torch's `empty_cuda` and `_pin_memory`."""
    with pytest.raises(RuntimeError, match="nly dense CPU tensors can be pinned"):
        PINNED[name]()


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "where", ["npu", "npu:0", torch.device("npu"), {"cpu": "npu"}, lambda s, _: s.npu()]
)
def test_a_file_of_the_host_is_loaded_on_the_device(where: Any) -> None:
    layer = nn.Linear(3, 2)
    found = torch.load(saved(layer.state_dict()), map_location=where)
    assert all(each.device == torch.device("npu:0") for each in found.values())
    assert torch.equal(found["weight"].cpu(), layer.weight)
    again = nn.Linear(3, 2).to("npu")
    again.load_state_dict(found)
    assert torch.equal(again.bias.cpu(), layer.bias)


def test_what_is_one_in_a_file_is_one_on_the_device() -> None:
    x = torch.arange(4.0)
    first, second, part = torch.load(saved([x, x.view(4), x[2:]]), map_location="npu")
    first.add_(1)
    assert second.tolist() == [1, 2, 3, 4] and part.tolist() == [2, 3]


def test_a_mapped_file_and_whole_modules() -> None:
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"x": torch.ones(3)}, file.name)
        assert torch.load(file.name, map_location="npu", mmap=True)["x"].tolist() == [1, 1, 1]
    layer = nn.Linear(2, 2).to("npu")
    for where, device in ((None, "npu"), ("cpu", "cpu"), ({"npu:0": "cpu"}, "cpu")):
        found = torch.load(saved(layer), map_location=where, weights_only=False)
        assert found.weight.device.type == device
        assert torch.equal(found.weight.cpu(), layer.weight.cpu())
    with pytest.raises(RuntimeError, match="npu:1 was asked for"):
        torch.load(saved(torch.ones(2)), map_location="npu:1")


def test_the_accelerator_is_the_device() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    kept = torch.ones(1000, device="npu")
    torch.accelerator.synchronize()
    assert torch.accelerator.memory_allocated() >= 4000 == kept.numel() * 4
    assert torch.accelerator.max_memory_reserved() >= 4000
    torch.accelerator.empty_cache()
    kept.record_stream(torch.npu.current_stream())
