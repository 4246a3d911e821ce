"""What the device uses of torch's dispatcher: its keys, wrappers of tensors, and operators.

What is private in torch is named here, in `tracing` and in `patches`. Written and tested with torch
2.13: `xladev.frontends.torch.adapter.check_version` refuses others before anything of them is
called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import backend_registration

_WRAPPERS = torch._C.DispatchKey.Functionalize
"""The key of what unwraps arguments."""

KEY = "PrivateUse1"
"""The dispatch key that torch keeps for devices from outside."""

HOST = "CPU"
"""The key of the host's tensors."""

SPARSE = f"Sparse{KEY}"
"""The key of sparse tensors of coordinates of such a device."""

NESTED = f"NestedTensor{KEY}"
"""The key of nested tensors of such a device."""

AUTOGRAD = f"Autograd{KEY}"
"""The key of what stands before it and records gradients."""


def registered_name() -> str | None:
    """The name that the key has got in this process; None before that."""
    found = torch._C._get_privateuse1_backend_name()
    return None if found == "privateuseone" else found


def set_up(name: str, module: Any) -> None:
    """Names the key and gives torch the device's guard, hooks and module ``torch.NAME``."""
    backend_registration._setup_privateuseone_for_python_backend(name, backend_module=module)


# Tensors


def without_storage(sizes: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of the device that knows its sizes and type and has no memory."""
    made: torch.Tensor = torch._C._acc.create_empty_tensor(sizes, dtype)
    return made


strided: Callable[[torch.Tensor, tuple[int, ...], tuple[int, ...], int], torch.Tensor] = (
    torch._C._dynamo.guards._reinterpret_tensor
)
"""A tensor without memory as one of other sizes, strides and offset."""


is_functional: Callable[[torch.Tensor], bool] = torch._is_functional_tensor
"""Whether a tensor is a wrapper by which torch makes views and mutation pure."""


def wrapped(inner: torch.Tensor) -> torch.Tensor:
    """What the user holds of an inner tensor."""
    made: torch.Tensor = torch._to_functional_tensor(inner)
    return made


bring_up_to_date: Callable[[torch.Tensor], None] = torch._functionalize_sync
"""What was written through views and to the wrapper is its value; the value before goes."""


def unwrapped(outer: torch.Tensor) -> torch.Tensor:
    """The inner tensor, with all that was written through views."""
    bring_up_to_date(outer)
    inner: torch.Tensor = torch._from_functional_tensor(outer)
    return inner


inside: Callable[[torch.Tensor], torch.Tensor] = torch._from_functional_tensor
"""The inner tensor of a wrapper as it was last brought up to date."""


def share_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are views of one, or one of the other."""
    return bool(torch._C._is_alias_of(first, second))


def replace(outer: torch.Tensor, inner: torch.Tensor) -> None:
    """Gives a wrapper another inner tensor: it, and what it is a view of, has changed."""
    torch._functionalize_replace(outer, inner)
    torch._functionalize_commit_update(outer)
    bring_up_to_date(outer)


def is_below_wrappers() -> bool:
    """Whether torch is within an operator whose arguments it has unwrapped."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_excluded(_WRAPPERS))


def replace_kernel(
    library: torch.library.Library,
    full: str,
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Puts a kernel, which is made of the usual one, where torch unwraps an operator's arguments.

    Both take keys, then arguments.
    """
    usual = torch.library.get_kernel(full, _WRAPPERS.name).call_boxed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl(full, make(usual), _WRAPPERS.name, with_keyset=True)


def as_plain_tensors() -> AbstractContextManager[Any]:
    """Within it, classes made of tensors are asked about nothing."""
    found: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
    return found


# Operators


def operators() -> Iterator[tuple[str, torch._ops.OpOverload]]:
    """Every overload of ATen that has a packet, by its full name such as ``aten::add.Tensor``."""
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        base, _, overload = name.partition(".")
        if namespace != "aten":
            continue
        try:
            yield full, getattr(getattr(torch.ops.aten, base), overload or "default")
        except (AttributeError, RuntimeError):
            continue


def is_composite(full: str, op: torch._ops.OpOverload) -> bool:
    """Whether torch makes it of other operators, with their gradients."""
    made = torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
    return bool(made and op._can_decompose())


def writes(op: torch._ops.OpOverload) -> bool:
    """Whether it changes an argument."""
    return any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments)


def is_pointwise(op: torch._ops.OpOverload) -> bool:
    """Whether it works on each element alone."""
    return torch.Tag.pointwise in op.tags


def autograd_kernel(full: str) -> Callable[..., Any]:
    """Torch's own kernel that records an operator's gradient; it takes keys, then arguments."""
    found: Callable[..., Any] = torch.library.get_kernel(full, AUTOGRAD).call_boxed
    return found


def host_kernel(full: str) -> Callable[..., Any]:
    """Torch's own kernel of an operator for the host; it takes keys, then arguments."""
    found: Callable[..., Any] = torch.library.get_kernel(full, HOST).call_boxed
    return found


def sparse_kernel(full: str) -> Callable[..., Any]:
    """Torch's own kernel for the host's sparse tensors; it takes keys, then arguments."""
    found: Callable[..., Any] = torch.library.get_kernel(full, "SparseCPU").call_boxed
    return found


def sparse_tensor(
    maker: str, indices: torch.Tensor, values: torch.Tensor, sparse_dim: int, dense_dim: int,
    size: tuple[int, ...], is_coalesced: bool | None,
) -> torch.Tensor:  # fmt: skip
    """Torch's sparse tensor of two tensors of any device, made by the operator ``maker``."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU)
    made: torch.Tensor = sparse_kernel(maker)(
        keys, sparse_dim, dense_dim, size, indices, values, dtype=values.dtype,
        layout=torch.sparse_coo, device=values.device, is_coalesced=is_coalesced,
    )  # fmt: skip
    return made


def autograd_kernel_of_numbers(op: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """The kernel for numbers in the place of tensors, where an operator has one."""
    base, _, overload = op._name.partition(".")
    wanted = "Scalar_out" if overload == "out" else overload.replace("Tensor", "Scalar", 1)
    if wanted == overload or wanted not in op.overloadpacket.overloads():
        return None
    return autograd_kernel(f"{base}.{wanted}")


def as_saved_number(number: float) -> torch.Tensor:
    """The tensor that torch makes of a number in the place of one, which autograd saves and frees.

    Torch gives kernels in Python the number itself. A multiplication saves the tensor.
    """
    with torch._C._DisableTorchDispatch(), torch.inference_mode(False), torch.enable_grad():
        made: torch.Tensor = (_LEAF * number).grad_fn._saved_other
    return made


_LEAF = torch.ones((), requires_grad=True)


def takes_tensors(op: torch._ops.OpOverload) -> bool:
    """Whether an argument may be a tensor."""
    return any("Tensor" in str(a.type) for a in op._schema.arguments)


def takes_device(op: torch._ops.OpOverload) -> bool:
    """Whether an argument says where the result is."""
    return any(a.name == "device" for a in op._schema.arguments)


def without_generator(op: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The overload that takes no generator, of one that must get one or None; else the same."""
    name = op._overloadname
    if not name.endswith("generator"):
        return op
    plain = name.removesuffix("generator").rstrip("_") or "default"
    return getattr(op.overloadpacket, plain)


def without_autocast() -> AbstractContextManager[Any]:
    """Within it, operators keep the types of their arguments."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{KEY}"))
    found: AbstractContextManager[Any] = torch._C._ExcludeDispatchKeyGuard(keys)
    return found
