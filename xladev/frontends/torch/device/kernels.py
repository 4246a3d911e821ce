"""What torch calls for the device's dispatch key: nearly all operators are recorded alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from xladev.errors import ArgumentError, DeviceError, XladevError
from xladev.frontends.torch.device import hooks, inverses, nested
from xladev.frontends.torch.device.generator import is_ours as is_of_device
from xladev.frontends.torch.device.node import Layout, layout_of, plain
from xladev.frontends.torch.device.outputs import check_result
from xladev.frontends.torch.device.record import download, hold, is_ours, mapped, run
from xladev.frontends.torch.device.tensor import STATE, Inner, tensor_of, upload
from xladev.frontends.torch.errors import refusal

aten = torch.ops.aten

_VIEW_NAMES = (
    "view", "expand", "permute", "unsqueeze", "transpose", "t", "slice", "select", "squeeze",
    "alias", "detach", "split_with_sizes", "split", "_reshape_alias", "as_strided", "diagonal",
    "unbind", "unfold", "view_as_real", "view_as_complex",
)  # fmt: skip


def _views() -> Iterator[tuple[Any, Any]]:
    for name in _VIEW_NAMES:
        view, copy = getattr(aten, name), getattr(aten, f"{name}_copy", None)
        for overload in () if copy is None else copy.overloads():
            if overload in view.overloads():
                yield getattr(copy, overload), getattr(view, overload)


VIEWS: Mapping[Any, Any] = {
    **dict(_views()),
    aten._conj_copy.default: aten.conj_physical.default,
    aten._neg_view_copy.default: aten.neg.default,
}
"""Functional copies of views, and the views whose lowerings they share."""


def check_device(device: Any) -> None:
    """Refuses a number of the device that torch's hooks for Python cannot carry.

    Raises:
        DeviceError: another number than 0.
    """
    if device is None:
        return
    index = torch.device(device).index
    if index not in (None, 0):
        raise refusal(
            DeviceError,
            f"device {STATE.name}:{index} was asked for",
            where="a factory of torch",
            why="torch's hooks for devices in Python carry one device, number 0",
            hint=f"use {STATE.name}:0; register another device of the platform by its name",
        )


def check_pinned(kwargs: Mapping[str, Any]) -> None:
    """Refuses to make a tensor of the device in pinned memory, in the words of torch for CUDA's.

    Raises:
        ArgumentError: it is asked for; a RuntimeError too.
    """
    if kwargs.get("pin_memory"):
        raise _unpinnable("Only dense CPU tensors can be pinned")


def _unpinnable(what: str) -> XladevError:
    return refusal(
        ArgumentError,
        what,
        where=f"a tensor of the device {STATE.name}",
        why="pinned memory is the host's, for copies to a device",
        hint="leave out pin_memory, or make the tensor on the host",
    )


def _pin_memory(tensor: torch.Tensor, device: Any = None) -> Any:
    kind = tensor.type() if not isinstance(tensor, Inner) else outer(tensor).type()
    raise _unpinnable(f"cannot pin '{kind}' only dense CPU tensors can be pinned")


def outer(found: Any) -> Any:
    """Results as users hold them."""
    return mapped(found, lambda t: hooks.wrapped(t) if isinstance(t, Inner) else t)


def operator_kernel(op: Any) -> Callable[..., Any]:
    """The kernel of an operator on tensors, which torch has unwrapped."""
    real = VIEWS.get(op, op)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        check_pinned(kwargs)
        return run(real, args, kwargs)

    return kernel


def factory_kernel(op: Any) -> Callable[..., Any]:
    """The kernel of an operator that makes a tensor of none."""

    plain = hooks.without_generator(op)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        check_device(kwargs.get("device"))
        check_pinned(kwargs)
        drawn_by = kwargs.get("generator")
        is_own = plain is not op and (drawn_by is None or is_of_device(drawn_by))
        chosen = plain if is_own and not STATE.random_of_host else op
        made = run(chosen, args, kwargs)
        return made if hooks.is_below_wrappers() else outer(made)

    return kernel


def _empty_strided(size: Any, stride: Any, **kwargs: Any) -> Any:
    check_device(kwargs.get("device"))
    check_pinned(kwargs)
    made = run(aten.empty.memory_format, (list(size),), kwargs)
    layout = layout_of(torch.empty_strided(size, stride, device="meta"))
    return outer(made if layout is None else tensor_of(made.handle.node, layout))


def _to_copy(tensor: torch.Tensor, **kwargs: Any) -> Any:
    device, dtype = kwargs.get("device"), kwargs.get("dtype") or tensor.dtype
    if device is not None and torch.device(device).type == "cpu":
        return download(tensor).to(dtype)
    check_device(device)
    writing = inverses.WRITING.out
    if writing is not None and writing[0] is dtype is not tensor.dtype:
        check_result(tensor.dtype, *writing)
    kept = {"dtype": dtype, "memory_format": kwargs.get("memory_format")}
    if isinstance(tensor, Inner) or hooks.is_functional(tensor):
        made = run(aten._to_copy.default, (tensor,), kept)
        return made if inverses.WRITING.depth else outer(made)  # a write takes it in a wrapper
    form = kwargs.get("memory_format") or torch.preserve_format
    with hooks.as_plain_tensors():  # a parameter without sizes yet refuses to be asked
        return hooks.wrapped(upload(tensor.detach().to(dtype, memory_format=form)))


def _copy(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """What a tensor holds after another was copied to it."""
    if hooks.is_functional(source):
        source = hooks.unwrapped(source)
    if not isinstance(destination, Inner):
        host = download(source).to(destination.dtype)
        return host.expand(destination.shape).clone()
    if not isinstance(source, Inner):
        source = upload(source)
    if source.dtype != destination.dtype:
        source = run(aten._to_copy.default, (source,), {"dtype": destination.dtype})
    if source.shape != destination.shape:
        source = run(aten.expand.default, (source, list(destination.shape)), {})
    if source.handle.layout != destination.handle.layout:
        source = tensor_of(source.handle.node, destination.handle.layout)
    return source


def _copy_(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """Copies to a tensor of the host, or within the device where nothing is a view."""
    if isinstance(destination, Inner):
        hold(destination, _copy(destination, source))
        return destination
    return destination.copy_(download(source))


def _copy_from(source: torch.Tensor, destination: torch.Tensor, non_blocking: bool = False) -> Any:
    if not hooks.is_functional(destination):
        return _copy_(destination, source)
    inner = hooks.unwrapped(destination)
    hooks.replace(destination, _copy(inner, source))
    return destination


def _same(tensor: torch.Tensor) -> Any:
    """A view of all elements: the same value, of which the device has one array."""
    return tensor_of(tensor.handle.node, tensor.handle.layout)


def _t(tensor: torch.Tensor) -> Any:
    """A transposed matrix; transposed again it is the same value."""
    call = tensor.handle.node.call
    if call is None or call.name != "aten.t.default" or tensor.dim() != 2:
        return run(aten.t.default, (tensor,), {})
    (node,) = tensor.handle.node.inputs
    layout = Layout(tuple(reversed(tensor.stride())), int(tensor.storage_offset()))
    return tensor_of(node, plain(node.spec.shape, layout))


def _item(tensor: torch.Tensor) -> Any:
    return download(tensor).item()


def _batch_norm(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Changes the running mean and variance, which its schema does not say."""
    given = (x, weight, bias, mean, variance, training, momentum, eps)
    if not training or mean is None:
        return run(aten.native_batch_norm.default, given, {})
    found = run(aten._native_batch_norm_legit_functional.default, given, {})
    hold(mean, found[3])
    hold(variance, found[4])
    return found[:3]


SPECIAL: dict[str, Callable[..., Any]] = {
    "aten::empty_strided": _empty_strided,
    "aten::_to_copy": _to_copy,
    "aten::copy": _copy,
    "aten::copy_": _copy_,
    "aten::_pin_memory": _pin_memory,
    "aten::_copy_from": _copy_from,
    "aten::_local_scalar_dense": _item,
    "aten::detach_copy": _same,
    "aten::alias_copy": _same,
    "aten::t_copy": _t,
    "aten::native_batch_norm": _batch_norm,
    **inverses.KERNELS,
    **nested.KERNELS,
}


def kernel_of(full: str, op: Any) -> Callable[..., Any] | None:
    """The device's kernel of an overload; None where torch makes it of others."""
    if full in SPECIAL:
        return SPECIAL[full]
    overload = full.partition(".")[2]
    base = full.removeprefix("aten::").partition(".")[0]
    if overload.endswith("out") or "name" in overload.lower() or base.startswith("_foreach"):
        return None
    if hooks.is_composite(full, op) or hooks.writes(op):
        return None
    if hooks.takes_tensors(op):
        return operator_kernel(op)
    return factory_kernel(op) if hooks.takes_device(op) else None


def _lift_fresh(usual: Callable[..., Any]) -> Callable[..., Any]:
    """What `torch.tensor` does last: it would make a view, whose sizes `out=` cannot change."""

    def kernel(keys: Any, tensor: torch.Tensor) -> Any:
        return tensor if is_ours(tensor) else usual(keys, tensor)

    return kernel


def register_kernels(library: torch.library.Library) -> int:
    """Gives torch a kernel of each operator; how many."""
    hooks.replace_kernel(library, "aten::lift_fresh", _lift_fresh)
    count = 0
    for full, op in hooks.operators():
        kernel = kernel_of(full, op)
        if kernel is not None:
            library.impl(full, kernel, hooks.KEY)
            count += 1
    return count
