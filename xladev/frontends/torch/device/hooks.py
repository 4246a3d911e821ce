"""The one place that names what the device uses of torch's private parts.

Written and tested with torch 2.13: `xladev.frontends.torch.adapter.check_version` refuses others
before anything here is called.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import _meta_registrations
from torch._functorch._aot_autograd import runtime_wrappers
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.meta_utils import MetaTensorDescriber
from torch.fx.experimental.proxy_tensor import make_fx
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


# Tracing


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Within it, operators compute sizes and types alone; what fails is raised and not logged."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled, log.disabled = log.disabled, True
    try:
        with FakeTensorMode():
            yield
    finally:
        log.disabled = was_disabled


def traced(
    function: Callable[..., Any], examples: list[torch.Tensor], table: dict[Any, Any]
) -> torch.fx.GraphModule:
    """The operators that a function calls, taken apart by a table of decompositions."""
    functional = torch.func.functionalize(function, remove="mutations")
    made: torch.fx.GraphModule = make_fx(functional, decomposition_table=table)(*examples)
    return made


def patch_tracing(is_ours: Callable[[torch.Tensor], bool], inner: type) -> None:
    """`torch.compile` traces tensors of the device as plain ones, with their sizes and strides.

    It would look for what is inside the wrappers, and make its own tensors without elements by the
    device's kernels.

    Args:
        is_ours: whether a tensor is the device's.
        inner: class of what is inside.
    """
    describe, make = MetaTensorDescriber.describe_tensor, FakeTensor.__new__
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    def describe_tensor(self: Any, t: torch.Tensor, **kwargs: Any) -> Any:
        if not is_functional(t) or not is_ours(t):
            return describe(self, t, **kwargs)
        with _seen_as_plain():
            return describe(self, t, **kwargs)

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return make(cls, *args, **kwargs)

    MetaTensorDescriber.describe_tensor = describe_tensor
    FakeTensor.__new__ = staticmethod(new)
    FakeTensorMode.avoid_device_init = True  # torch.tensor would make one of the device, else
    runtime_wrappers.HANDLED_TYPES = (*runtime_wrappers.HANDLED_TYPES, inner)


def patch_checks() -> None:
    """Operators in place are told at once that equal sizes fit.

    Torch asks a function in Python before each, which takes 12 us of an addition's 18.
    """
    usual = _meta_registrations.check_inplace_broadcast

    def check(sizes: Any, *others: Any) -> None:
        if all(each.__class__ is int for each in sizes) and all(
            not each or each == sizes for each in others
        ):
            return
        usual(sizes, *others)

    _meta_registrations.check_inplace_broadcast = check


@contextmanager
def _seen_as_plain() -> Iterator[None]:
    torch._is_functional_tensor = lambda _: False
    try:
        yield
    finally:
        torch._is_functional_tensor = is_functional


# What torch's own methods ask


def rebuilt_from_host(tensor: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
    """How pickle makes the tensor again: a copy of the host, put on the device."""
    rebuild = torch._utils._rebuild_device_tensor_from_cpu_tensor
    host = tensor.detach().cpu()
    return rebuild, (host, tensor.dtype, str(tensor.device), tensor.requires_grad)


def patch_pickling(is_ours: Callable[[torch.Tensor], bool]) -> None:
    """Tensors of the device are pickled by way of the host; torch asks for memory else."""
    original = torch.Tensor._reduce_ex_internal

    def reduce(self: torch.Tensor, proto: int) -> Any:
        return rebuilt_from_host(self) if is_ours(self) else original(self, proto)

    torch.Tensor._reduce_ex_internal = reduce


def patch_printing(is_ours: Callable[[torch.Tensor], bool]) -> None:
    """Tensors of the device are printed as CUDA's are."""
    original = torch._tensor_str._str_intern

    def text(inp: torch.Tensor, *, tensor_contents: str | None = None) -> Any:
        if not is_functional(inp) or not is_ours(inp):
            return original(inp, tensor_contents=tensor_contents)
        return _text(inp, tensor_contents)

    torch._tensor_str._str_intern = text


def _text(tensor: torch.Tensor, contents: str | None) -> Any:
    host = tensor.detach().cpu()
    suffixes = [f"device='{tensor.device}'"]
    plain = (torch.get_default_dtype(), torch.int64, torch.bool)
    if host.numel() == 0 and host.dim() != 1:
        suffixes.append(f"size={tuple(host.shape)}")
    if host.dtype not in plain or (host.numel() == 0 and host.dtype != plain[0]):
        suffixes.append(f"dtype={host.dtype}")
    if contents is None:
        contents = torch._tensor_str._tensor_str(host, len("tensor(")) if host.numel() else "[]"
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text = f"tensor({contents}"
    return torch._tensor_str._add_suffixes(text, suffixes, len("tensor("), force_newline=False)


def patch_copying(is_ours: Callable[[torch.Tensor], bool]) -> None:
    """`copy.deepcopy` clones tensors of the device; torch would copy their memory."""
    original = torch.Tensor.__deepcopy__

    def deepcopy(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not is_ours(self) or not self.is_leaf or id(self) in memo:
            return original(self, memo)
        made = self.detach().clone().requires_grad_(self.requires_grad)
        if type(self) is not torch.Tensor:
            made = torch.Tensor._make_subclass(type(self), made, self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        return made

    torch.Tensor.__deepcopy__ = deepcopy


def patch_swaps() -> None:
    """Modules take another type while a graph holds their parameters.

    Torch refuses to swap such tensors; where they are of one kind, what they hold is exchanged,
    which is what torch does with modules unless it is told to swap.
    """
    usual = torch.utils.swap_tensors

    def swap(t1: torch.Tensor, t2: torch.Tensor) -> None:
        try:
            usual(t1, t2)
        except RuntimeError:
            if not torch._has_compatible_shallow_copy_type(t1, t2):
                raise
            held, t1.data = t1.data, t2.data
            t2.data = held

    torch.utils.swap_tensors = swap


def patch_lazy_modules() -> None:
    """Parameters without sizes stay such where a module is moved; swapped ones would not."""
    lazy = torch.nn.modules.lazy.LazyModuleMixin
    uninitialised = torch.nn.parameter.UninitializedParameter

    def apply(self: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> Any:
        every = self._parameters
        self._parameters = {n: p for n, p in every.items() if not isinstance(p, uninitialised)}
        try:
            made = super(lazy, self)._apply(fn, recurse)
        finally:
            moved, self._parameters = self._parameters, every
        every.update(moved)
        for param in every.values():
            if isinstance(param, uninitialised):
                to = fn(torch.empty(0, dtype=param.data.dtype, device=param.device))
                new = uninitialised(param.requires_grad, device=to.device, dtype=to.dtype)
                torch.utils.swap_tensors(param, new)
        return made

    lazy._apply = apply
