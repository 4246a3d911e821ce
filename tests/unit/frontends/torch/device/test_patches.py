"""What torch asks of tensors is answered without their memory."""

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch.device import patches

pytestmark = pytest.mark.usefixtures("npu")


def test_sizes_that_do_not_fit_are_refused_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"[Bb]roadcast|output with shape"):
        torch.ones(3, device="npu").add_(torch.ones(2, 3, device="npu"))
    assert torch.ones(2, 3, device="npu").add_(torch.ones(3, device="npu")).sum().item() == 12
    monkeypatch.setattr(torch._refs, "_broadcast_shapes", lambda *_: pytest.fail("was asked"))
    torch._meta_registrations.check_inplace_broadcast(torch.Size([3]), torch.Size([3]))


def test_pickling_goes_by_way_of_the_host() -> None:
    _, (host, dtype, device, wants) = patches.rebuilt_from_host(torch.ones(2, device="npu"))
    assert (host.device.type, dtype, device, wants) == ("cpu", torch.float32, "npu:0", False)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_module_takes_another_type_while_a_graph_holds_its_parameters(device: str) -> None:
    module = torch.nn.BatchNorm1d(3).to(device)
    weight, result = module.weight, module(torch.randn(4, 3, device=device))
    module.double()
    assert module.weight is weight
    assert weight.dtype is torch.float64
    result = module(torch.randn(4, 3, dtype=torch.float64, device=device))
    result.square().sum().backward()
    assert weight.grad.dtype is torch.float64
