"""One model under each compiler, in one process: losses, times in turn, first calls."""

from __future__ import annotations

import copy
import os
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.torch.models import Inputs, make
from torch import nn

STEPS = 20
COMPILERS: dict[str, dict[str, Any]] = {
    "eager": {},
    "xladev": {"backend": "xladev", "options": {"platform": "cpu"}},
    "inductor": {"backend": "inductor"},
    "max-autotune": {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
    "freezing": {"backend": "inductor", "options": {"freezing": True}},
    "aot_eager": {"backend": "aot_eager"},
}


def measure(name: str, given: Any) -> dict[str, Any]:
    """What `python -m benchmarks.torch` prints of one model.

    Args:
        name: of the model.
        given: the command line.
    """
    torch.set_num_threads(given.threads)
    row: dict[str, Any] = {"model": name, "compilers": {}}
    calls: dict[str, Callable[[], None]] = {}
    for compiler in given.compilers:
        call, row["compilers"][compiler] = _prepared(name, compiler, given)
        if call is not None:
            calls[compiler] = call
    times = _in_turn(calls, given)
    for compiler, seconds in times.items():
        row["compilers"][compiler]["times"] = seconds
    return row


def losses(name: str, given: Any) -> dict[str, Any]:
    """Losses of 20 steps of AdamW by xladev, by eager torch with one and two threads, and in f64.

    Args:
        name: of the model.
        given: the command line.
    """
    row: dict[str, Any] = {"model": name}
    kinds = {"eager": (1, torch.float32), "eager, two threads": (2, torch.float32),
             "eager, f64": (1, torch.float64)}  # fmt: skip
    for kind, (threads, dtype) in kinds.items():
        torch.set_num_threads(threads)
        model, inputs = make(name)
        model.train().to(dtype)
        row[kind] = _losses(model, _training(model, model, _converted(inputs, dtype)))
    torch.set_num_threads(given.threads)
    given.what = "training"
    call, found = _prepared(name, "xladev", given)
    if call is None:
        return {"model": name, "error": found["error"]}
    return row | {"xladev": found["losses"], "breaks": found["breaks"], "torch": found["torch"],
                  "first_s": found["first_s"]}  # fmt: skip


def _converted(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    if isinstance(inputs, dict):
        return {key: _converted(value, dtype) for key, value in inputs.items()}
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _prepared(name: str, compiler: str, given: Any) -> tuple[Any, dict[str, Any]]:
    from torch._dynamo.utils import counters
    from xladev.frontends.torch import records

    torch._dynamo.reset()
    counters.clear()
    records.forget()
    model, inputs = make(name)
    model.train(given.what == "training")
    settings = dict(COMPILERS[compiler])
    if compiler == "xladev":
        settings["options"] = settings["options"] | {"threads": given.threads}
    run = torch.compile(model, **settings) if settings else model
    call = _training(model, run, inputs) if given.what == "training" else _inference(run, inputs)
    found: dict[str, Any] = {}
    start = _cpu_seconds()
    try:
        call()
        found["first_s"] = _cpu_seconds() - start
        if given.what == "training":
            found["losses"] = _losses(model, call)
        else:
            found["result"] = float(total(call()).detach())
    except Exception as error:  # noqa: BLE001 (a compiler may raise anything)
        return None, {"error": f"{type(error).__name__}: {error}"[:300]}
    found["breaks"] = sum(counters["graph_break"].values())
    if compiler == "xladev":
        found["torch"] = _left()
    return call, found


def _left() -> list[str]:
    from xladev.frontends.torch import records

    if not records.compiled_graphs():
        return ["everything"]
    return [f"{f.operator}: {f.reason}"[:120] for f in records.fallbacks()]


def _inference(run: Any, inputs: Inputs) -> Callable[[], Any]:
    def call() -> Any:
        with torch.no_grad():
            return run(**inputs) if isinstance(inputs, dict) else run(inputs)

    return call


def _training(model: nn.Module, run: Any, inputs: Inputs) -> Callable[[], Any]:
    """Forward and backward, as one call that gives the loss."""

    def call() -> Any:
        for parameter in model.parameters():
            parameter.grad = None
        loss = total(run(**inputs) if isinstance(inputs, dict) else run(inputs))
        loss.backward()
        return loss

    return call


def _losses(model: nn.Module, call: Callable[[], Any]) -> list[float]:
    """The losses of steps of AdamW, which torch runs itself; the model is then as it was."""
    kept = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(STEPS):
        loss = call()
        optimizer.step()
        found.append(float(loss.detach()))
    model.load_state_dict(kept)
    return found


def total(made: Any) -> Any:
    """How far the first result that is a model's own is from ones, in the mean square.

    Some models begin with weights of zero before it: the gradient is not zero even so.
    """
    if isinstance(made, torch.Tensor):
        wide = made if made.dtype == torch.float64 else made.float()
        return (wide - 1).square().mean()
    if isinstance(made, (tuple, list)):
        return total(made[0])
    for key in ("logits", "last_hidden_state"):
        if made.get(key) is not None:
            return total(made[key])
    return total(next(iter(made.values())))


def _in_turn(calls: dict[str, Callable[[], Any]], given: Any) -> dict[str, list[float]]:
    """Seconds per call of each, in rounds."""
    clock = time.process_time if given.threads == 1 else time.perf_counter
    counts = {name: _count(call, clock, given.slice) for name, call in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(given.rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(counts[name]):
                call()
            found[name].append((clock() - start) / counts[name])
    return found


def _count(call: Callable[[], Any], clock: Callable[[], float], slice_s: float) -> int:
    """How many calls fill a slice of time."""
    call()
    once = statistics.median(_once(call, clock) for _ in range(3))
    return max(1, min(200, int(slice_s / max(once, 1e-6))))


def _once(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def _cpu_seconds() -> float:
    """Processor time of this process and of the compilers that it started and waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def prepare_environment(threads: int) -> None:
    """No caches, so that first calls are first; inductor compiles in this process."""
    os.environ.update(
        XLADEV_CACHE="off",
        TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
        TORCHINDUCTOR_COMPILE_THREADS="1",
        OMP_NUM_THREADS=str(threads),
    )
