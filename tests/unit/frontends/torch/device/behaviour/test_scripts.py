"""What scripts do with a device, with the CPU's results."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")


def same(function: Callable[[str], Any]) -> None:
    """A function of the device's name gives on both devices what it gives on the host."""
    torch.manual_seed(0)
    wanted = function("cpu")
    torch.manual_seed(0)
    found = function("npu")
    torch.testing.assert_close(on_host(found), on_host(wanted))


def on_host(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [on_host(each) for each in value]
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


FACTORIES: dict[str, Callable[[str], Any]] = {
    "ones": lambda d: torch.ones(2, 3, device=d),
    "zeros": lambda d: torch.zeros(2, dtype=torch.int64, device=d),
    "full": lambda d: torch.full((2,), 7.5, device=d),
    "arange": lambda d: torch.arange(2, 9, 3, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "tensor": lambda d: torch.tensor([[1.0, 2.0]], device=d),
    "tensor of numbers": lambda d: torch.tensor(3, device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "ones_like": lambda d: torch.ones_like(torch.zeros(3, device=d)),
    "new_full": lambda d: torch.zeros(3, device=d).new_full((2,), 4),
    "tril": lambda d: torch.tril(torch.ones(3, 3, device=d)),
    "triu_indices": lambda d: torch.triu_indices(3, 3, device=d),
    "bool": lambda d: torch.ones(2, device=d).bool(),
    "complex": lambda d: torch.ones(2, device=d) * 1j,
    "bfloat16": lambda d: torch.ones(2, device=d, dtype=torch.bfloat16) * 1.5,
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory(name: str) -> None:
    made = FACTORIES[name]("npu")
    assert made.device == torch.device("npu:0")
    same(FACTORIES[name])


def views(d: str) -> Any:
    x = torch.zeros(2, 3, device=d)
    row = x[0]
    row += 1
    x[1, 2] = 5
    x.mul_(2)
    x.t()[1].add_(3)
    x.view(-1)[::2].zero_()
    return x, row, x.t()


def indices(d: str) -> Any:
    x = torch.arange(12.0, device=d).reshape(3, 4)
    x[torch.tensor([0, 2]), 1] = -1
    x[x > 8] = 0
    return x, x[torch.tensor([1, 0], device=d)], x[:, [0, 3]], x.nonzero(), x.max(), x[x > 2]


def gradients(d: str) -> Any:
    a = torch.rand(3, 4).to(d).requires_grad_()
    w = torch.rand(4, 2).to(d).requires_grad_()
    seen: list[Any] = []
    a.register_hook(lambda grad: seen.append(grad) or grad * 2)
    (a @ w).tanh().pow(2).sum().backward()
    return a.grad, w.grad, seen


def checkpointed(d: str) -> Any:
    layer = nn.Linear(3, 3).to(d)
    x = torch.rand(2, 3).to(d).requires_grad_()
    checkpoint(lambda t: layer(t).tanh(), x, use_reentrant=False).sum().backward()
    return x.grad, layer.weight.grad


def loaded(d: str) -> Any:
    model = nn.Linear(3, 2).to(d)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    host = torch.load(file, map_location="cpu")
    assert all(each.device.type == "cpu" for each in host.values())
    file.seek(0)
    there = torch.load(file)
    assert all(each.device.type == d for each in there.values())
    other = nn.Linear(3, 2).to(d)
    other.load_state_dict(host)
    return model.weight, other.weight, other.bias, host["weight"]


def copied(d: str) -> Any:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(d)
    other = copy.deepcopy(model)
    with torch.no_grad():
        model[0].weight.zero_()
    assert isinstance(other[0].weight, nn.Parameter) and other[0].weight.is_leaf
    again = pickle.loads(pickle.dumps(other[0].weight))
    return other[0].weight, other(torch.ones(2, 3, device=d)), again


def normalised(d: str) -> Any:
    layer = nn.BatchNorm1d(3).to(d)
    for _ in range(3):
        layer(torch.rand(5, 3).to(d) * 4)
    seen = layer.running_mean, layer.running_var, layer.num_batches_tracked
    return [*seen, layer.eval()(torch.ones(2, 3, device=d))]


def clipped(d: str) -> Any:
    model = nn.Linear(4, 2).to(d)
    model(torch.ones(3, 4, device=d)).sum().backward()
    total = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return total, model.weight.grad, model.bias.grad


def data(d: str) -> Any:
    p = nn.Parameter(torch.ones(2, device=d))
    p.data.mul_(3)
    first = p.detach().clone()
    p.data = torch.zeros(2, device=d)
    return first, p


def out_arguments(d: str) -> Any:
    out = torch.empty(3, device=d)
    torch.add(torch.ones(3, device=d), 2, out=out)
    return out, torch.stack([out, out]), torch.cat([out, out])


def read(d: str) -> Any:
    x = torch.arange(6.0, device=d).reshape(2, 3)
    return x.tolist(), x.sum().item(), float(x[1, 1]), bool((x > -1).all()), len(x), x.shape


SCRIPTS = (
    views, indices, gradients, checkpointed, loaded, copied, normalised, clipped, data,
    out_arguments, read,
)  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.__name__)
def test_a_script(script: Callable[[str], Any]) -> None:
    same(script)


def test_tensors_are_printed_as_those_of_cuda() -> None:
    x = torch.tensor([1.0, 2.5], device="npu")
    assert repr(x) == "tensor([1.0000, 2.5000], device='npu:0')"
    assert repr(x.double().requires_grad_()) == (
        "tensor([1.0000, 2.5000], device='npu:0', dtype=torch.float64,\n       requires_grad=True)"
    )
    assert repr(torch.zeros(0, 2, device="npu")) == "tensor([], device='npu:0', size=(0, 2))"
    assert "grad_fn=<AddBackward0>" in repr(x.clone().requires_grad_() + 1)


def test_devices_are_not_mixed() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as e:
        torch.ones(2, device="npu") + torch.ones(2)
    assert all(f"  {part}: " in str(e.value) for part in ("where", "why", "next"))


def test_a_number_of_the_host_may_be_an_operand() -> None:
    assert (torch.ones(2, device="npu") + torch.tensor(2.0)).tolist() == [3, 3]


def test_a_second_device_is_refused() -> None:
    with pytest.raises(xladev.XladevError, match="npu:1 was asked for"):
        torch.ones(2, device="npu:1")
    with pytest.raises(xladev.XladevError, match="npu:1 was asked for"):
        torch.ones(2).to("npu:1")


def test_tied_weights_stay_tied() -> None:
    model = nn.Module()
    model.embed, model.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    model.head.weight = model.embed.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("npu")
    assert model.head.weight is model.embed.weight
    assert optimizer.param_groups[0]["params"][0] is model.embed.weight


def test_a_default_device() -> None:
    torch.set_default_device("npu")
    try:
        assert (torch.ones(2) + 1).device.type == "npu"
        assert nn.Linear(2, 2).weight.device.type == "npu"
    finally:
        torch.set_default_device(None)


def test_random_numbers_follow_the_seed() -> None:
    def drawn() -> list[Any]:
        torch.manual_seed(3)
        return [torch.rand(4, device="npu"), F.dropout(torch.ones(8, device="npu"))]

    first, second = on_host(drawn()), on_host(drawn())
    assert all(map(torch.equal, first, second))
    state = torch.npu.get_rng_state()
    one = torch.randn(3, device="npu").cpu()
    torch.npu.set_rng_state(state)
    assert torch.equal(one, torch.randn(3, device="npu").cpu())


def test_autocast_computes_in_the_lower_type() -> None:
    x = torch.ones(2, 2, device="npu")
    with torch.autocast("npu", dtype=torch.bfloat16):
        y = x @ x
        assert y.dtype is torch.bfloat16
        assert F.linear(x, x).dtype is torch.bfloat16
        assert y.softmax(0).dtype is torch.float32
        assert (y + y).dtype is torch.bfloat16
    assert (x @ x).dtype is torch.float32


def test_eager_mode_gives_the_same() -> None:
    xladev.torch.set_eager(True)
    try:
        for script in SCRIPTS:
            same(script)
        before = xladev.torch.report().ran
        _ = torch.ones(2, device="npu") + 1
        assert xladev.torch.report().ran == before + 2
    finally:
        xladev.torch.set_eager(False)


def test_lazy_modules_get_their_sizes_on_the_device() -> None:
    for to in ((torch.float64,), ("npu",), ("npu", torch.bfloat16)):
        layer = nn.LazyConv1d(3, 2)
        weight = layer.weight
        layer.to(*to)
        assert layer.weight is weight and isinstance(weight, nn.UninitializedParameter)
        x = torch.ones(1, 2, 5).to(*to)
        assert layer(x).shape == (1, 3, 4)
        assert layer.weight is weight and type(weight) is nn.Parameter
        assert (weight.device, weight.dtype) == (x.device, x.dtype)


def test_doubles_and_numbers_run_on_the_device() -> None:
    x = torch.ones(3, device="npu", dtype=torch.float64)
    assert torch.sub(x * 0.1, x, alpha=0.3).tolist() == [0.1 - 0.3] * 3
    assert not xladev.torch.report().host


@pytest.mark.parametrize("fused", [False, True])
def test_a_training_loop_compiles_at_first_and_gives_memory_back(fused: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to("npu")
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    levels, compiled = [], []
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.rand(4, 8, device="npu")), torch.arange(4).to("npu") % 2)
        loss.backward()
        optimizer.step()
        assert loss.item() > 0
        del loss
        torch.npu.synchronize()
        levels.append(torch.npu.memory_allocated())
        compiled.append(xladev.torch.report().compiled)
    assert compiled[2] == compiled[-1]
    assert len(set(levels[1:])) == 1
