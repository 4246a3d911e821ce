"""What the device uses of torch's tracing: sizes without elements, graphs, and its own tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._functorch._aot_autograd import runtime_wrappers
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.meta_utils import MetaTensorDescriber
from torch.fx.experimental.proxy_tensor import make_fx

from xladev.frontends.torch.device import hooks


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
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, hooks.KEY))

    def describe_tensor(self: Any, t: torch.Tensor, **kwargs: Any) -> Any:
        if not hooks.is_functional(t) or not is_ours(t):
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


@contextmanager
def _seen_as_plain() -> Iterator[None]:
    torch._is_functional_tensor = lambda _: False
    try:
        yield
    finally:
        torch._is_functional_tensor = hooks.is_functional
