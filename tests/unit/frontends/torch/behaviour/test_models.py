"""Models trained 20 steps with AdamW, beside eager torch: losses agree to 1e-4."""

import copy
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from xladev.frontends.torch import call, records

pytestmark = pytest.mark.long


class Recurrent(nn.Module):
    """LSTMCell or GRUCell, step by step."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.cell = getattr(nn, cell)(8, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: object) -> object:
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.inner = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, x: object) -> object:
        wide = self.down(x)
        low = self.inner(nn.functional.max_pool2d(wide, 2))
        return self.head(torch.cat([self.up(low), wide], 1)).mean((1, 3))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(31, 32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x: object) -> object:
        h = self.embed(x)
        q, k, v = self.qkv(self.norm(h)).view(*x.shape, 3, 4, 8).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(a.transpose(1, 2).flatten(2))
        return self.head(nn.functional.gelu(h).mean(1))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.head = nn.Linear(8, 4)

    def forward(self, x: object) -> object:
        h = self.norm(self.stem(x)).relu()
        h = nn.functional.avg_pool2d(h + self.block(h), 2)
        return self.head(nn.functional.adaptive_avg_pool2d(h, 1).flatten(1))


def image() -> object:
    return torch.rand(4, 1, 8, 8)


MODELS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "lstm": (lambda: Recurrent("LSTMCell"), lambda: torch.rand(4, 5, 8)),
    "gru": (lambda: Recurrent("GRUCell"), lambda: torch.rand(4, 5, 8)),
    "unet": (UNet, image),
    "transformer": (Transformer, lambda: torch.randint(0, 31, (4, 6))),
    "resnet": (ResNet, image),
}


def losses(model: object, forward: Callable[[object], object], x: object) -> list[float]:
    target = torch.linspace(-1, 1, x.shape[0])[:, None]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (forward(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        found.append(float(loss))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_eagers(name: str) -> None:
    records.forget()
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model, x = make(), inputs()
    other = copy.deepcopy(model)
    wanted = losses(other, other, x)
    step = torch.compile(model, backend="xladev", fullgraph=True, options={"platform": "cpu"})
    found = losses(model, step, x)
    assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 1e-4
    assert wanted[-1] < wanted[0]
    assert [record.kind for record in records.compiled_graphs()] == ["forward", "backward"]
    assert not records.fallbacks()


def test_an_optimiser_step_is_one_program_that_writes_in_place() -> None:
    records.forget()
    torch._dynamo.reset()
    model = nn.Linear(8, 4)
    other = copy.deepcopy(model)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (model, other)]
    addresses = [p.data_ptr() for p in model.parameters()]
    step = torch.compile(optimizers[0].step, backend="xladev", options={"platform": "cpu"})
    for _ in range(3):
        for m in (model, other):
            for p in m.parameters():
                p.grad = torch.ones_like(p)
        step()
        optimizers[1].step()
    for found, wanted in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(found, wanted, atol=1e-6)
    assert [p.data_ptr() for p in model.parameters()] == addresses
    assert not records.fallbacks()


@pytest.mark.parametrize("least", [0, 1 << 20])
def test_running_means_are_eagers_donated_or_copied(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "LEAST_DONATED_NBYTES", least)
    torch._dynamo.reset()
    model = nn.BatchNorm1d(3)
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="xladev", options={"platform": "cpu"})
    address, version = model.running_mean.data_ptr(), model.running_mean._version
    for _ in range(2):
        x = torch.randn(8, 3)
        run(x)
        other(x)
    for found, wanted in zip(model.buffers(), other.buffers(), strict=True):
        assert torch.allclose(found, wanted)
    assert model.running_mean.data_ptr() == address
    assert model.running_mean._version > version
