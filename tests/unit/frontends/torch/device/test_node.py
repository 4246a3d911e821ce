"""Layouts: torch tells views from copies on the device as it does on the host."""

import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch.device.node import view_strides

pytestmark = pytest.mark.usefixtures("npu")

VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda t: t.t(),
    "rows": lambda t: t[1:],
    "columns": lambda t: t[:, 1],
    "every other column": lambda t: t[:, ::2],
    "expanded": lambda t: t[:, :1].expand(-1, 5),
    "diagonal": lambda t: t.diagonal(),
    "channels last": lambda t: t.reshape(1, 2, 3, 2).contiguous(memory_format=torch.channels_last),
    "sum of transposed": lambda t: t.t() + 1,
    "product": lambda t: t.t() @ t,
    "copy of transposed": lambda t: t.t().clone(),
    "contiguous": lambda t: t.t().contiguous(),
    "unfolded": lambda t: t.unfold(1, 2, 1),
    "a size of one": lambda t: t[:1, ::4],
    "parts": lambda t: t.split(2, 1)[1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_strides_are_those_of_the_host(name: str) -> None:
    host = torch.arange(12.0).reshape(3, 4)
    wanted, found = VIEWS[name](host), VIEWS[name](host.to("npu"))
    assert (found.stride(), found.storage_offset()) == (wanted.stride(), wanted.storage_offset())
    assert torch.equal(found.cpu(), wanted)


def test_a_transposed_tensor_keeps_its_strides_on_the_way_to_the_device() -> None:
    assert torch.zeros(2, 3).t().to("npu").stride() == (1, 3)


@pytest.mark.parametrize("view", [lambda t: t.t(), lambda t: t[:, :3], lambda t: t.expand(2, 2, 4)])
def test_what_reshape_copies_is_not_written_through(view: Callable[[Any], Any]) -> None:
    host = torch.arange(8.0).reshape(2, 4)
    device = host.to("npu")
    for tensor in (host, device):
        view(tensor).reshape(-1).zero_()
    assert torch.equal(device.cpu(), host)
    assert host.sum() == 28


def test_a_view_that_does_not_exist_is_refused() -> None:
    device = torch.zeros(2, 3).to("npu").t()
    with pytest.raises(RuntimeError, match=r"[Vv]iew"):
        device.view(-1)


def test_a_copy_keeps_the_strides_of_what_it_is_copied_to() -> None:
    device = torch.zeros(2, 3).to("npu").t()
    device.copy_(torch.arange(6.0).reshape(3, 2).to("npu"))
    assert device.stride() == (1, 3)
    assert device.cpu().tolist() == [[0, 1], [2, 3], [4, 5]]


def _strided(draw: random.Random) -> Any:
    """A view of eight numbers by eight, by random steps."""
    host = torch.arange(64).reshape(draw.choice([(64,), (8, 8), (4, 1, 16), (2, 2, 4, 4)]))
    for _ in range(draw.randint(0, 3)):
        dim = draw.randrange(host.dim())
        size = host.shape[dim]
        order = draw.sample(range(host.dim()), host.dim())
        sizes = [*host.shape[:dim], draw.choice([1, 2]), *host.shape[dim:]]
        host = draw.choice([
            host.permute(order), host.narrow(dim, 0, draw.randint(1, size)),
            host.unsqueeze(dim).expand(sizes), host.unfold(dim, draw.randint(1, size), 2),
        ])  # fmt: skip
    return host


def test_views_of_other_sizes_are_those_of_the_host() -> None:
    draw = random.Random(0)
    refused = 0
    for _ in range(3000):
        host, wanted = _strided(draw), []
        left = host.numel()
        while left > 1:
            wanted.append(draw.choice([n for n in range(1, left + 1) if left % n == 0]))
            left //= wanted[-1]
        found = view_strides(host.shape, host.stride(), wanted)
        try:
            strides = host.view(wanted).stride()
        except RuntimeError:
            strides = None
        refused += strides is None
        assert found == strides, (host.shape, host.stride(), wanted)
    assert 500 < refused < 2500


def test_an_expanded_tensor_with_a_size_of_one_has_no_flat_view() -> None:
    with pytest.raises(RuntimeError, match=r"view size is not compatible .* Use \.reshape"):
        torch.zeros(1, 3, device="npu").expand(2, 1, 3).view(-1)
