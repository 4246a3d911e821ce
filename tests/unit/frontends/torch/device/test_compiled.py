"""`torch.compile` and `torch.export` on the device: the CPU's results, of arrays of the device."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional as F

import xladev.client
import xladev.torch
from xladev.frontends.torch.device.record import value_of
from xladev.runtime.array import DeviceArray

pytestmark = pytest.mark.usefixtures("npu")


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="xladev", **options)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "transposed": (lambda x: (x + 1).t() * 2, lambda: (torch.arange(6.0).reshape(2, 3).t(),)),
    "a part": (lambda x: x.sum(0), lambda: (torch.arange(6.0).reshape(2, 3)[:, 1:],)),
    "several results": (lambda x: (x.view(-1), x * 2, None, 3), lambda: (torch.ones(2, 2),)),
    "numbers": (lambda x, n: x * n + 1.5, lambda: (torch.ones(3), 4)),
    "a constant": (lambda x: x + torch.tensor([1.0, 2.0], device=x.device),
                   lambda: (torch.ones(2),)),
    "bfloat16": (lambda x: x.softmax(0), lambda: (torch.ones(4, dtype=torch.bfloat16),)),
    "a new one": (lambda x: torch.zeros_like(x) + torch.arange(3, device=x.device),
                  lambda: (torch.ones(3),)),
    "what no program holds": (lambda x: torch.linalg.ldl_factor(x * 2)[0] + 1,
                              lambda: (torch.eye(3),)),
    "an error is seen": (lambda x: torch.linalg.cholesky(x), lambda: (torch.eye(3) * 4,)),
}  # fmt: skip


def at(device: str, value: Any) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    wanted = function(*inputs())
    found = compiled(function)(*(at("npu", each) for each in inputs()))
    tuples = [each if isinstance(each, tuple) else (each,) for each in (wanted, found)]
    for one, other in zip(*tuples, strict=True):
        if isinstance(one, torch.Tensor):
            assert other.device.type == "npu" and other.stride() == one.stride()
            torch.testing.assert_close(other.cpu(), one)
        else:
            assert one == other


def test_arrays_are_taken_and_given_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    call = xladev.client.CompiledModule.__call__

    def spied(self: Any, *args: Any, **kwargs: Any) -> Any:
        results = call(self, *args, **kwargs)
        seen.append((args, results))
        return results

    x = torch.ones(2, 3, device="npu") * 2
    xladev.torch.step()
    function = compiled(lambda t: t + 1)
    function(x)
    monkeypatch.setattr(xladev.client.CompiledModule, "__call__", spied)
    y = function(x)
    ((args, results),) = seen
    assert isinstance(args[0], DeviceArray)
    assert args[0] is value_of(x) and results[0] is value_of(y)


def test_training_is_as_on_the_host() -> None:
    torch.manual_seed(0)
    host = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)
    )
    there = copy.deepcopy(host).to("npu")
    x, y = torch.rand(8, 1, 8, 8), torch.randint(0, 5, (8,))
    losses: list[list[float]] = []
    for model, device in ((host, "cpu"), (there, "npu")):
        function = compiled(model) if device == "npu" else model
        optimizer = torch.optim.AdamW(model.parameters())
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(function(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    torch.testing.assert_close(there[1].running_mean.cpu(), host[1].running_mean)
    assert there[1].num_batches_tracked.item() == 5


def test_writes_reach_bases_and_views() -> None:
    x = torch.zeros(4, device="npu")
    view, version = x[1:3], x._version
    function = compiled(lambda t: t.add_(1).mul_(2))
    function(view)
    assert x.tolist() == [0, 2, 2, 0] and x._version > version
    function(x)
    assert view.tolist() == [6, 6] and x.tolist() == [2, 6, 6, 2]


def test_random_numbers_follow_the_seed() -> None:
    function = compiled(lambda x: F.dropout(x, 0.5))
    x = torch.ones(64, device="npu")
    torch.manual_seed(1)
    first, second = function(x), function(x)
    torch.manual_seed(1)
    assert torch.equal(first, function(x)) and not torch.equal(first, second)


def test_the_host_and_the_device_have_programs_of_their_own() -> None:
    function = compiled(lambda x: x + 1)
    assert function(torch.ones(2)).device.type == "cpu"
    assert function(torch.ones(2, device="npu")).device.type == "npu"
    assert compiled(lambda x, s: x * s)(torch.ones(2, device="npu"), torch.tensor(3.0)).sum() == 6


def test_sizes_that_change() -> None:
    function = compiled(lambda x: x.cumsum(0) * 2, dynamic=True)
    for n in (3, 4, 7, *range(8, 18)):
        assert function(torch.ones(n, device="npu"))[-1].item() == 2 * n


def test_what_is_not_positive_definite_is_torch_s_error() -> None:
    function = compiled(lambda x: torch.linalg.cholesky(x))
    with pytest.raises(torch.linalg.LinAlgError):
        function(-torch.eye(3, device="npu"))


def test_other_backends_trace_tensors_of_the_device() -> None:
    x = torch.ones(2, device="npu", requires_grad=True)
    torch.compile(lambda t: (t * 2).sin().sum(), backend="aot_eager")(x).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.cos(torch.full((2,), 2.0)))


def test_a_module_is_exported() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).to("npu")
    x = torch.ones(2, 3, device="npu")
    program = torch.export.export(model, (x,))
    assert torch.equal(program.module()(x).cpu(), model(x).cpu())
    assert all(v.device.type == "npu" for v in program.state_dict.values())
