"""Samples of torch's operator database, run by xladev and by eager torch."""

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from xladev.frontends.torch import adapter, records
from xladev.frontends.torch.backend import decompositions, graph_compilers
from xladev.frontends.torch.lower.every import LOWERINGS
from xladev.frontends.torch.settings import settings_of

TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float16: (1e-3, 1e-3),
}
"""(relative, absolute) by the result's dtype; integers are equal."""

MOST_TOGETHER, OPERATORS_TOGETHER = 32, 400
"""Samples and, about, operators of a program that several samples share: tracing and compiling cost
less for each in it."""

UNDEFINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
             "empty_permuted", "resize_", "resize_as_"}  # fmt: skip
"""Operators whose elements mean nothing: sizes and types are compared."""

RANDOM = {lowering.overload for lowering in LOWERINGS.values() if lowering.family == "random"}
"""What draws numbers, which are others than eager torch's: sizes and types are compared."""

UNTRACEABLE = ("DynamicOutputShapeException", "DataDependentOutputException",
               "GuardOnDataDependentSymNode", "Please convert all Tensors to FakeTensors",
               "Jiterator is only supported")  # fmt: skip


def entries(dtype: str) -> dict[str, Any]:
    """The database's operators with samples of a dtype, by name and variant."""
    wanted = getattr(torch, dtype)
    found = {}
    for op in op_db:
        if wanted in op.supported_dtypes("cpu"):
            variant = f".{op.variant_test_name}" if op.variant_test_name else ""
            found[f"{op.name}{variant}"] = op
    return found


def judge(op: Any, options: argparse.Namespace) -> tuple[str, int, str]:
    """The outcome of an operator, how many samples ran, and what failed first."""
    dtype = getattr(torch, options.dtype)
    if options.grad and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
        return "none", 0, ""
    settings = settings_of(None, {"platform": options.platform})
    worst, ran, detail = "none", 0, ""
    try:
        samples = op.sample_inputs("cpu", dtype, requires_grad=options.grad)
        chosen = itertools.islice(samples, options.samples or None)
        for outcome, why in _outcomes(op, chosen, settings, grad=options.grad):
            ran += outcome != "none"
            if _ORDER.index(outcome) > _ORDER.index(worst):
                worst, detail = outcome, f"sample {ran}: {why}"
            if outcome in ("wrong", "error"):
                break
    except Exception as error:  # noqa: BLE001 (an operator may raise anything)
        return "error", ran, f"{type(error).__name__}: {error}"[:300]
    return worst, ran, detail


def _outcomes(
    op: Any, samples: Iterator[Any], settings: Any, *, grad: bool
) -> Iterator[tuple[str, str]]:
    """The outcome of each sample: the first alone, others in groups that share a program.

    Samples of a group that does not pass as a whole run again one by one, and later groups are
    smaller.
    """
    size = 1
    for sample in itertools.islice(samples, 1):
        outcome, why = _one(op, sample, settings, grad=grad)
        size = _group_size() if outcome == "pass" else 1
        yield outcome, why
    while group := list(itertools.islice(samples, size)):
        if len(group) > 1 and _passes_together(op, group, settings, grad=grad):
            yield from [("pass", "")] * len(group)
        else:
            size = max(1, size // 4)
            for sample in group:
                yield _one(op, sample, settings, grad=grad)


def _group_size() -> int:
    """How many samples share a program: fewer of those whose first one had many operators."""
    operators = sum(each.operators.total() for each in records.compiled_graphs())
    return max(1, min(MOST_TOGETHER, OPERATORS_TOGETHER // max(operators, 1)))


def _passes_together(op: Any, group: list[Any], settings: Any, *, grad: bool) -> bool:
    """Whether samples pass as one function of all their tensors, and each has results in torch."""
    records.forget()
    parts = [flat(op, sample) for sample in group]
    tensors = [tensor for _, taken in parts for tensor in taken]

    def function(*all_tensors: torch.Tensor) -> list[Any]:
        left = iter(all_tensors)
        made = [each(*itertools.islice(left, len(taken))) for each, taken in parts]
        return [tensor for several in made for tensor in several]

    compiled = adapter.traced_function(function, graph_compilers(settings), decompositions())
    try:
        if any(results(each, taken, grad=grad) is None for each, taken in parts):
            return False
        torch.manual_seed(0)
        wanted = results(function, tensors, grad=grad)
        torch.manual_seed(0)
        found = results(compiled, tensors, grad=grad)
    except Exception:  # noqa: BLE001 (an operator may raise anything)
        return False
    assert wanted is not None and found is not None
    return _compared(op, wanted, found)[0] == "pass"


_ORDER = ("none", "pass", "host", "torch", "untraceable", "wrong", "error")


def _one(op: Any, sample: Any, settings: Any, *, grad: bool) -> tuple[str, str]:
    warnings.simplefilter("ignore")
    records.forget()
    function, tensors = flat(op, sample)
    try:
        torch.manual_seed(0)
        wanted = results(function, tensors, grad=grad)
    except Exception as error:  # noqa: BLE001 (an operator may raise anything)
        return "none", f"eager: {error}"
    if wanted is None:
        return "none", "no gradient"
    compiled = adapter.traced_function(function, graph_compilers(settings), decompositions())
    try:
        torch.manual_seed(0)
        found = results(compiled, tensors, grad=grad)
    except Exception as error:  # noqa: BLE001 (an operator may raise anything)
        text = f"{type(error).__name__}: {error}"
        outcome = "untraceable" if any(each in text for each in UNTRACEABLE) else "error"
        return outcome, text[:400]
    assert found is not None
    outcome, why = _compared(op, wanted, found)
    if outcome == "wrong" and _rounding_explains(function, tensors, wanted, found, grad=grad):
        return _compared(op, found, found)
    return outcome, why


def _rounding_explains(
    function: Callable[..., list[Any]],
    tensors: list[torch.Tensor],
    wanted: list[Any],
    found: list[Any],
    *,
    grad: bool,
) -> bool:
    """Whether the results are as near as eager torch's to what it computes in f64 or c128."""
    if any(t.dtype in (torch.float64, torch.complex128) for t in tensors):
        return False
    wide = [_wide(t) for t in tensors]
    try:
        exact = results(function, wide, grad=grad)
    except Exception:  # noqa: BLE001 (a type that is an argument need not fit)
        return False
    if exact is None or len(exact) != len(found):
        return False
    return all(_as_near(e, w, f) for e, w, f in zip(exact, wanted, found, strict=True))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    made = tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)
    return made.requires_grad_(tensor.requires_grad)


def _as_near(exact: Any, wanted: Any, found: Any) -> bool:
    if exact is None or wanted is None or found is None or exact.shape != found.shape:
        return exact is None and wanted is None and found is None
    ours, eagers = (
        (each.detach().to(exact.dtype) - exact.detach()).abs() for each in (found, wanted)
    )
    return bool((ours.max() if ours.numel() else 0) <= 2 * (eagers.max() if ours.numel() else 0))


def _compared(op: Any, wanted: list[Any], found: list[Any]) -> tuple[str, str]:
    graphs = records.compiled_graphs()
    is_random = any(name in RANDOM for each in graphs for name in each.operators)
    why = difference(wanted, found, values=not (is_random or op.name in UNDEFINED))
    if why:
        return "wrong", why
    left = [f"{f.operator}: {f.reason}" for each in graphs for f in each.fallbacks]
    if left:
        return "torch", left[0][:200]
    hosted = [f for each in graphs for run in each.programs for f in run.program.fallbacks]
    return ("host", str(hosted[0])[:200]) if hosted else ("pass", "")


def flat(op: Any, sample: Any) -> tuple[Callable[..., list[Any]], list[torch.Tensor]]:
    """An operator as a function of the tensors of a sample, which gives a list of tensors."""
    leaves, tree = pytree.tree_flatten((sample.input, sample.args, dict(sample.kwargs)))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> list[Any]:
        filled = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            filled[at] = tensor
        x, args, kwargs = pytree.tree_unflatten(filled, tree)
        made = sample.output_process_fn_grad(op.op(x, *args, **kwargs))
        return [each for each in pytree.tree_leaves(made) if isinstance(each, torch.Tensor)]

    return function, [leaves[at] for at in places]


def results(
    function: Callable[..., list[Any]], tensors: list[torch.Tensor], *, grad: bool
) -> list[Any] | None:
    """What a function gives, and the gradients of its sum; None if nothing has a gradient."""
    taken = [_copy(t, grad=grad) for t in tensors]
    inputs = [t.clone() if t.requires_grad else t for t in taken]
    made = function(*inputs)
    if not grad:
        return made
    outputs = [o for o in made if o.requires_grad and o.layout == torch.strided]
    if not outputs:
        return None
    torch.autograd.backward(outputs, [weights_of(each) for each in outputs])
    return [*(each.detach() for each in made), *(t.grad for t in taken)]


def weights_of(output: torch.Tensor) -> torch.Tensor:
    """Gradients that differ from element to element."""
    steps = torch.arange(output.numel(), dtype=torch.float64).reshape(output.shape)
    return (1 + 0.25 * torch.sin(steps)).to(output.dtype)


def _copy(tensor: torch.Tensor, *, grad: bool) -> torch.Tensor:
    made = tensor.detach().clone(memory_format=torch.preserve_format)
    return made.requires_grad_(grad and tensor.requires_grad)


def difference(wanted: list[Any], found: list[Any], *, values: bool) -> str:
    """What two lists of tensors differ in; empty if in nothing."""
    if len(wanted) != len(found):
        return f"{len(found)} results, wanted {len(wanted)}"
    return next(filter(None, _differences(wanted, found, values=values)), "")


def _differences(wanted: list[Any], found: list[Any], *, values: bool) -> Iterator[str]:
    for at, (want, got) in enumerate(zip(wanted, found, strict=True)):
        if want is None or got is None:
            other = want if got is None else got
            if other is not None and other.abs().max() != 0:
                yield f"result {at}: None beside {tuple(other.shape)}"
            continue
        if want.shape != got.shape or want.dtype != got.dtype:
            given, needed = (f"{t.dtype}{list(t.shape)}" for t in (got, want))
            yield f"result {at}: {given}, wanted {needed}"
        elif values:
            yield _unequal(at, want.detach(), got.detach())


def _unequal(at: int, want: torch.Tensor, got: torch.Tensor) -> str:
    relative, absolute = TOLERANCES.get(want.dtype, (0.0, 0.0))
    if want.is_sparse or want.layout != torch.strided:
        return ""
    if torch.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True):
        return ""
    away = (got.to(torch.complex128) - want.to(torch.complex128)).abs()
    return (
        f"result {at} {want.dtype}{list(want.shape)}: off by {away.nan_to_num().max().item():.3g}"
    )
