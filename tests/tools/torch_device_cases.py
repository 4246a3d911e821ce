"""Cases of torch's own databases on a device of xladev, each compared with the host's results."""

import argparse
import copy
import itertools
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

import xladev.torch
from tests.tools.torch_samples import UNDEFINED, difference, weights_of

STEPS = 5
"""Steps of an optimiser."""

INDICES_ON_HOST = {"tensor_split"}
"""Operators all of whose tensors but the first are on the host, whatever the device."""

UP_TO_SIGN = {"linalg.eig", "linalg.eigh", "svd_lowrank", "pca_lowrank"}
"""Operators whose results have vectors as columns that may be turned, each by a factor of size 1:
they are compared after their largest elements have been made real and positive."""

DRAWN = {"nn.functional.dropout", "nn.functional.rrelu", "nn.functional.gumbel_softmax"}


def cases(what: str, dtype: str) -> dict[str, Callable[..., tuple[str, int, str]]]:
    """By name, what gives the outcome of a case."""
    return {"operators": _operators, "modules": _modules, "optimisers": _optimisers}[what](
        getattr(torch, dtype)
    )


def judge(case: Any, options: argparse.Namespace) -> tuple[str, int, str]:
    """The outcome of a case, how many samples ran, and what failed first."""
    warnings.simplefilter("ignore")
    xladev.torch.report().clear()
    try:
        outcome, ran, detail = case(options)
    except Exception as error:  # noqa: BLE001 (a case may raise anything)
        return "error", 0, f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
    host = xladev.torch.report().host
    if outcome == "pass" and host:
        return "host", ran, "; ".join(f"{name}: {why}" for name, why in host)[:300]
    return outcome, ran, detail


def moved(value: Any, device: str) -> Any:
    """Arguments on a device; that a tensor wants a gradient is kept."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().to(device).requires_grad_(leaf.requires_grad)
        return torch.device(device) if isinstance(leaf, torch.device) else leaf

    return pytree.tree_map(move, value)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor of a nest, on the host."""
    found = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return [each.detach().cpu() if each.layout == torch.strided else each for each in found]


# Operators


def _operators(dtype: torch.dtype) -> dict[str, Any]:
    found = {}
    for op in op_db:
        if dtype in op.supported_dtypes("cpu"):
            variant = f".{op.variant_test_name}" if op.variant_test_name else ""
            found[f"{op.name}{variant}"] = _operator(op, dtype)
    return found


def _operator(op: Any, dtype: torch.dtype) -> Any:
    def run(options: argparse.Namespace) -> tuple[str, int, str]:
        grad = options.grad
        if grad and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
            return "none", 0, ""
        ran = 0
        samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
        for sample in itertools.islice(samples, options.samples or None):
            given = (sample.input, sample.args, sample.kwargs)
            try:
                torch.manual_seed(0)
                wanted = _results(op, moved(given, "cpu"), grad=grad)
            except Exception:  # noqa: BLE001 (what the host cannot do is no sample)
                continue
            torch.manual_seed(0)
            kept = given[1:] if op.name in INDICES_ON_HOST else None
            found = _results(op, moved(given, "npu"), grad=grad, rest=kept)
            ran += 1
            if op.name in UP_TO_SIGN:
                wanted, found = (
                    [each if each.is_complex() and n == 0 else _signed(each)
                     for n, each in enumerate(one)] for one in (wanted, found)
                )  # fmt: skip
            why = difference(wanted, found, values=op.name not in UNDEFINED | DRAWN)
            if why:
                return "wrong", ran, f"sample {ran}: {why}"
        return ("pass" if ran else "none"), ran, ""

    return run


def _results(op: Any, given: Any, *, grad: bool, rest: Any = None) -> list[Any]:
    first, args, kwargs = given if rest is None else (given[0], *rest)
    leaves = [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
    wants = [t for t in leaves if t.requires_grad]
    made = op(first.clone() if grad and isinstance(first, torch.Tensor) else first, *args, **kwargs)
    if not grad:
        return tensors_in(made)
    outputs = [t for t in pytree.tree_leaves(made)
               if isinstance(t, torch.Tensor) and t.requires_grad]  # fmt: skip
    weights = [weights_of(each.detach().cpu()).to(each.device) for each in outputs]
    torch.autograd.backward(outputs, weights)
    return [*tensors_in(made), *(t.grad.cpu() if t.grad is not None else None for t in wants)]


def _signed(vectors: torch.Tensor) -> torch.Tensor:
    """Columns with their largest element real and positive; anything else as it is."""
    if vectors.dim() < 2:
        return vectors
    at = vectors.abs().argmax(-2, keepdim=True)
    largest = vectors.gather(-2, at)
    return vectors / (largest / largest.abs())


# Modules


def _modules(dtype: torch.dtype) -> dict[str, Any]:
    return {info.name: _module(info, dtype) for info in module_db}


def _module(info: Any, dtype: torch.dtype) -> Any:
    def run(options: argparse.Namespace) -> tuple[str, int, str]:
        ran = 0
        made = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=True
        )
        for each in itertools.islice(made, options.samples or None):
            built = each.constructor_input
            torch.manual_seed(0)
            module = info.module_cls(*built.args, **built.kwargs).to(dtype).eval()
            given = (each.forward_input.args, each.forward_input.kwargs)
            wanted = _module_results(copy.deepcopy(module), moved(given, "cpu"))
            found = _module_results(copy.deepcopy(module).to("npu"), moved(given, "npu"))
            ran += 1
            why = difference(wanted, found, values=True)
            if why:
                return "wrong", ran, f"input {ran}: {why}"
        return ("pass" if ran else "none"), ran, ""

    return run


def _module_results(module: Any, given: Any) -> list[Any]:
    args, kwargs = given
    torch.manual_seed(0)  # lazy modules draw their weights now
    made = module(*args, **kwargs)
    outputs = [t for t in pytree.tree_leaves(made)
               if isinstance(t, torch.Tensor) and t.requires_grad]  # fmt: skip
    if outputs:
        weights = [weights_of(each.detach().cpu()).to(each.device) for each in outputs]
        torch.autograd.backward(outputs, weights)
    leaves = [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]
    grads = [t.grad for t in (*module.parameters(), *leaves) if t.is_leaf]
    return [*tensors_in(made), *(None if g is None else g.cpu() for g in grads)]


# Optimisers


def _optimisers(_: torch.dtype) -> dict[str, Any]:
    return {info.optim_cls.__name__: _optimiser(info) for info in optim_db}


def _optimiser(info: Any) -> Any:
    def run(options: argparse.Namespace) -> tuple[str, int, str]:
        ran = 0
        for each in itertools.islice(info.optim_inputs_func(device="cpu"), options.samples or None):
            wanted, found = (_trained(info, each, device) for device in ("cpu", "npu"))
            ran += 1
            why = _away(info, wanted, found)
            if why:
                return "wrong", ran, f"{each.kwargs}: {why}"
        return "pass", ran, ""

    return run


LOOSE = {"Muon": 1.6e-2}
"""Absolute tolerances of optimisers that compute in bfloat16. Others have those of float32."""


FLAT = {"LBFGS"}
"""Optimisers that go so far that rounding decides where, on the host as well: a start that differs
by 1e-7 gives other weights, by 0.2, and other losses, by 1e-3. They compute in float64, and losses
are compared."""


def _away(info: Any, wanted: list[torch.Tensor], found: list[torch.Tensor]) -> str:
    limit = LOOSE.get(info.optim_cls.__name__)
    if limit is None:
        return difference(wanted, found, values=True)
    away = max(float((w - f).abs().max()) for w, f in zip(wanted, found, strict=True))
    return "" if away <= limit else f"off by {away:.3g}"


@cache
def _data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(8, 6, generator=generator), torch.rand(8, 4, generator=generator)


def _trained(info: Any, given: Any, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    name = info.optim_cls.__name__
    if name == "SparseAdam":
        return _sparsely_trained(info, given, device)
    bias = name != "Muon"
    dtype = torch.float64 if name in FLAT else torch.float32
    layers = (torch.nn.Linear(6, 5, bias=bias), torch.nn.Tanh(), torch.nn.Linear(5, 4, bias=bias))
    model = torch.nn.Sequential(*layers).to(dtype).to(device)
    kwargs = {
        k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in given.kwargs.items()
    }
    optimiser = info.optim_cls(model.parameters(), **kwargs)
    x, y = (each.to(dtype).to(device) for each in _data())
    losses = []

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        losses.append(optimiser.step(closure).detach().cpu())
    weights = [] if name in FLAT else [p.detach().cpu() for p in model.parameters()]
    return [*losses, *weights]


def _sparsely_trained(info: Any, given: Any, device: str) -> list[torch.Tensor]:
    table = torch.nn.Embedding(6, 4, sparse=True).to(device)
    optimiser = info.optim_cls(table.parameters(), **given.kwargs)
    for _ in range(STEPS):
        optimiser.zero_grad()
        table(torch.tensor([1, 3, 1], device=device)).pow(2).sum().backward()
        optimiser.step()
    return [table.weight.detach().cpu()]
