"""Each private part of torch that the device uses does what the device relies on."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from xladev.errors import UnsupportedError, XladevError
from xladev.frontends.torch import adapter
from xladev.frontends.torch.device import door, hooks
from xladev.frontends.torch.device.tensor import Inner

pytestmark = pytest.mark.usefixtures("npu")


def test_the_key_has_the_name() -> None:
    assert hooks.registered_name() == "npu"
    assert torch.device("npu", 0).type == "npu"


def test_a_tensor_without_memory_knows_its_sizes() -> None:
    made = hooks.without_storage((2, 3), torch.int64)
    assert made.shape == (2, 3) and made.dtype is torch.int64 and made.device.type == "npu"


def test_a_wrapper_shows_what_was_written_through_a_view() -> None:
    x = torch.zeros(3, device="npu")
    assert hooks.is_functional(x)
    before = hooks.unwrapped(x)
    x[1:].add_(1)
    after = hooks.unwrapped(x)
    assert isinstance(after, Inner) and after is not before
    hooks.replace(x, before)
    assert x.tolist() == [0, 0, 0]


def test_operators_are_told_apart() -> None:
    every = dict(hooks.operators())
    assert len(every) > 2500
    assert hooks.is_composite("aten::matmul", every["aten::matmul"])
    assert not hooks.is_composite("aten::mm", every["aten::mm"])
    assert hooks.writes(every["aten::add_.Tensor"])
    assert not hooks.writes(every["aten::add.Tensor"])
    assert hooks.takes_tensors(every["aten::add.Tensor"])
    assert not hooks.takes_tensors(every["aten::ones"])
    assert hooks.takes_device(every["aten::ones"])


def test_autocast_is_left_out_where_asked() -> None:
    x = torch.ones(2, 2, device="npu")
    with torch.autocast("npu", dtype=torch.bfloat16), hooks.without_autocast():
        assert (x @ x).dtype is torch.float32


def test_another_version_leaves_torch_unharmed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UnsupportedError("torch 2.99 is installed")

    monkeypatch.setattr(adapter, "check_version", refuse)
    monkeypatch.setattr(hooks, "set_up", lambda *_: pytest.fail("torch was changed"))
    with pytest.raises(UnsupportedError, match=r"torch 2\.99 is installed"):
        door.register("other")


def test_a_second_name_is_refused() -> None:
    with pytest.raises(XladevError, match="torch cannot get a device 'other'"):
        door.register("other", platform="cpu")
    assert torch.device("npu").type == "npu"


TOO_LATE = """
import torch, xladev.torch
torch.ones(3, requires_grad=True).sum().backward()
try:
    xladev.torch.register("npu", platform="cpu")
except xladev.errors.DeviceError as error:
    print(error.code, error.hint)
"""


def test_a_device_that_comes_after_the_first_backward_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", TOO_LATE], capture_output=True, text=True)
    assert done.stdout.startswith("DEVICE register the device before the first backward"), done
