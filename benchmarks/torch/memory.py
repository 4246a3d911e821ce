"""How much memory training takes: forward, backward and AdamW, in a process for each compiler.

All are megabytes of the process's resident set, over what it had with torch, Dynamo and the model's
library imported. After a step means after a collection of garbage and `malloc_trim`, too.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from benchmarks.torch.child import COMPILERS, total
from benchmarks.torch.models import Inputs, make

SETTLING, STEPS = 3, 4
"""Steps before those whose peak is measured, the one that compiles among them; and those."""

MB = 1e6


def measure_memory(name: str, given: Any) -> dict[str, Any]:
    """What a training by one compiler takes.

    Args:
        name: of the model.
        given: the command line; its only compiler is measured.

    Returns:
        ``imported``: of the process before; and over it ``peak`` in a step, ``first`` in the first
        one, ``steady`` after a step, ``left``: what is there then beside weights, buffers,
        gradients and AdamW's moments; ``weights`` themselves.
    """
    torch.set_num_threads(given.threads)
    make(name)
    imported = _settled()
    (compiler,) = given.compilers
    model, inputs = make(name)
    model.train()
    settings = dict(COMPILERS[compiler])
    if compiler == "xladev":
        settings["options"] = settings["options"] | {"threads": given.threads}
    run = torch.compile(model, **settings) if settings else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    _forget_peak()
    _step(run, inputs, optimizer)
    found = {"first": _peak() - imported}
    for _ in range(SETTLING - 1):
        _step(run, inputs, optimizer)
    _forget_peak()
    for _ in range(STEPS):
        _step(run, inputs, optimizer)
    found["peak"] = _peak() - imported
    found["steady"] = _settled() - imported
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    states = [value for state in optimizer.state.values() for value in state.values()]
    held = (*model.parameters(), *model.buffers(), *gradients, *states)
    found["left"] = found["steady"] - _nbytes(held)
    found["weights"] = _nbytes(model.parameters())
    megabytes = {key: value / MB for key, value in found.items()}
    return {"model": name, "compiler": compiler, "imported": imported / MB, **megabytes}


def _step(run: Callable[..., Any], inputs: Inputs, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    made = run(**inputs) if isinstance(inputs, dict) else run(inputs)
    loss = total(made)
    del made
    loss.backward()
    optimizer.step()


def _nbytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _settled() -> int:
    """Bytes in memory once what nobody needs was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most bytes in memory since `_forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
