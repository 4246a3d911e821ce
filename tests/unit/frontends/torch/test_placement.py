"""A graph belongs to the device of its tensors."""

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import placement


def graph(*devices: str) -> torch.fx.GraphModule:
    made = torch.fx.Graph()
    for at, device in enumerate(devices):
        node = made.placeholder(f"x{at}")
        node.meta["val"] = (torch.empty(1, device=device), None)
    made.output(())
    return torch.fx.GraphModule(torch.nn.Module(), made)


def test_the_first_tensor_on_a_known_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    found = placement.Placement(lambda: "x", lambda *_: lambda _: [])
    monkeypatch.setattr(placement, "PLACEMENTS", {})
    assert placement.placement_of(graph("cpu", "meta")) is None
    assert not placement.is_known(torch.device("meta"))
    monkeypatch.setattr(placement, "PLACEMENTS", {"meta": found})
    assert placement.placement_of(graph("cpu", "meta")) is found
    assert placement.placement_of(graph("cpu")) is None
    assert placement.is_known(torch.device("meta")) and placement.is_known(torch.device("cpu"))
