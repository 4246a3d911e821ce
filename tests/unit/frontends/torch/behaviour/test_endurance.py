"""Many steps, and many threads at once."""

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import records

pytestmark = [pytest.mark.long, pytest.mark.rotating, pytest.mark.usefixtures("fresh")]

STEPS, SETTLED = 10_000, 1_000
THREADS, STEPS_OF_THREAD = 8, 10
PAGE = 4096


def network(seed: int) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )


def compiled(model: Any) -> Any:
    return torch.compile(model, backend="xladev", options={"platform": "cpu"})


def resident() -> int:
    """Bytes of memory that this process has."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_ten_thousand_steps_take_no_more_memory_than_a_thousand() -> None:
    model = network(0)
    run = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = objects = 0
    for number in range(STEPS):
        run(torch.rand(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == SETTLED:
            before, objects = resident(), len(gc.get_objects())
    assert resident() - before < 8 << 20
    assert len(gc.get_objects()) - objects < STEPS // 100
    assert len(records.compiled_graphs()) == 2


def losses(model: Any, run: Any, seed: int) -> list[float]:
    """The losses of a few steps of training with a batch of a size of its own."""
    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for _ in range(STEPS_OF_THREAD):
        loss = run(torch.rand(4 + seed % 2, 16, generator=random)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def test_eight_threads_compile_and_train_at_once() -> None:
    wanted = [losses(model := network(seed), model, seed) for seed in range(THREADS)]
    models = [network(seed) for seed in range(THREADS)]
    found: dict[int, Any] = {}

    def work(seed: int) -> None:
        try:
            found[seed] = losses(models[seed], compiled(models[seed]), seed)
        except Exception as error:  # noqa: BLE001 (the main thread tells)
            found[seed] = error

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(THREADS):
        assert found[seed] == pytest.approx(wanted[seed], rel=1e-4), seed
    assert not records.fallbacks()
