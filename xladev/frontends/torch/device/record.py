"""Records an operator, or runs it on the host."""

from __future__ import annotations

from typing import Any

import torch

from xladev.errors import ArgumentError, UnsupportedError, XladevError
from xladev.frontends.torch.device import generator, hooks
from xladev.frontends.torch.device.counts import COUNTS
from xladev.frontends.torch.device.node import Call, Layout, Node
from xladev.frontends.torch.device.places import NO_PLACE, PLACES, PlaceRule
from xladev.frontends.torch.device.program import BOUND, compute
from xladev.frontends.torch.device.signature import (
    DROPPED,
    SCALARS,
    Operand,
    Scalar,
    Signature,
)
from xladev.frontends.torch.device.tensor import (
    STATE,
    Inner,
    handle_of,
    tensor_from,
    tensor_of,
    upload,
    uploaded,
)
from xladev.frontends.torch.errors import refusal
from xladev.runtime.array import DeviceArray

_NO_SCALARS: frozenset[int | str] = frozenset()
_calls: dict[tuple[Any, ...], Call] = {}

INDICES_OF_HOST = frozenset(
    f"aten.{name}"
    for name in (
        "index.Tensor", "_unsafe_index.Tensor", "index_put.default", "_index_put_impl.default",
    )
)  # fmt: skip
"""Operators whose indices may be on the host, as on CUDA."""


class _Arguments:
    """One pass over arguments: a key for their kinds, operands, scalars."""

    __slots__ = ("is_strided", "key", "layouts", "name", "nodes", "scalars")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.key: list[Any] = [number]
        self.nodes: list[Node] = []
        self.layouts: list[Layout | None] = []
        self.is_strided = False
        self.scalars: list[float] = []

    def take(self, value: Any, is_scalar: bool) -> None:
        kind = value.__class__
        if kind is Inner:
            handle = value.handle
            node = handle.node
            self.nodes.append(node)
            self.layouts.append(handle.layout)
            if handle.layout is not None:
                self.is_strided = True
            self.key.append(node.spec)
        elif kind is float and is_scalar:
            self.scalars.append(value)
            self.key.append(float)
        elif kind is list or kind is tuple:
            self.key.append(len(value))
            for each in value:
                self.take(each, False)
        elif isinstance(value, torch.Tensor):
            self._other(value)
        elif kind is float:
            self.key.append(kind)
            self.key.append(value.hex())
        else:
            self.key.append(kind)
            self.key.append(value)

    def _other(self, value: torch.Tensor) -> None:
        """A tensor from elsewhere: a number of the host, or an index."""
        if hooks.is_functional(value):
            self.take(hooks.unwrapped(value), False)
            return
        if value.device.type != "cpu" or (value.dim() and self.name not in INDICES_OF_HOST):
            raise of_several_devices(self.name, value.device)
        node = uploaded(value)
        self.nodes.append(node)
        self.layouts.append(None)
        self.key.append(node.spec)


def of_several_devices(name: str, other: torch.device) -> XladevError:
    """The error of an operator with tensors of the device and of another."""
    return refusal(
        ArgumentError,
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{STATE.name}:0 and {other}!",
        where=name,
        why="an operator has all its operands on one device; numbers of the host may go by",
        hint=f"move the other one there: .to({STATE.name!r})",
    )


def run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of an operator, as inner tensors.

    Raises:
        RuntimeError: tensors of several devices, or a view that torch's CPU would not give.
    """
    known = _known.get(op)
    if known is None:
        known = _known[op] = _Known(str(op), len(_known))
    scalars, rule, given, place = known.scalars, known.rule, args, NO_PLACE
    if rule is not None:
        apart = None if kwargs else rule.apart(args)
        if apart is None:
            rule = None
        else:
            args, place = apart
    taken = _Arguments(known.name, known.number)
    taken.key.append(torch.get_default_dtype())  # of quotients of integers, among others
    for at, value in enumerate(args):
        taken.take(value, at in scalars)
    for word, value in kwargs.items():
        if word not in DROPPED and value is not None:
            taken.key.append(word)
            taken.take(value, word in scalars)
    key = tuple(taken.key)
    call = _calls.get(key)
    if call is None:
        call = _calls[key] = _signature(op, args, kwargs, taken, scalars, rule).call()
    if call.lower is None or _is_for_host(call, kwargs):
        return on_host(op, given, kwargs, call.why_not or "torch draws its random numbers")
    layouts = call.layouts.get(tuple(taken.layouts) if taken.is_strided else None)
    if layouts is None:
        layouts = _signature(op, args, kwargs, taken, scalars, rule).strided()
        call.layouts[tuple(taken.layouts)] = layouts
    if rule is not None:
        sizes = call.specs[0].shape  # type: ignore[union-attr]
        layouts = (rule.layout(layouts[0], sizes, args, place),)
    return _recorded(call, taken, layouts, place, kwargs.get("generator"))


class _Known:
    """What is found once for an operator: torch's own objects take long to compare and to name."""

    __slots__ = ("name", "number", "rule", "scalars")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.scalars = SCALARS.get(name, _NO_SCALARS)
        self.rule = PLACES.get(name)


_known: dict[Any, _Known] = {}


def _is_for_host(call: Call, kwargs: dict[str, Any]) -> bool:
    if not call.draws:
        return False
    given = kwargs.get("generator")
    return STATE.random_of_host or (given is not None and not generator.is_ours(given))


def _recorded(
    call: Call,
    taken: _Arguments,
    layouts: tuple[Layout | None, ...],
    place: int,
    drawn_by: Any,
) -> Any:
    COUNTS.recorded += 1
    scalars = tuple(taken.scalars)
    inputs = tuple(taken.nodes)
    if not call.is_several:
        node = Node(call.specs[0], call, inputs, scalars, place=place)
        if call.draws:
            node.seed = generator.draw_seed(drawn_by)
        made: Any = tensor_of(node, layouts[0])
    else:
        whole = Node(None, call, inputs, scalars)
        if call.draws:
            whole.seed = generator.draw_seed(drawn_by)
        made = [
            None if spec is None else tensor_of(Node(spec, None, (whole,), (), at), layouts[at])
            for at, spec in enumerate(call.specs)
        ]
    if STATE.is_eager:
        compute([t.handle.node for t in (made if call.is_several else [made]) if t is not None])
    elif len(STATE.recorded) > BOUND:
        compute()
    return made


def _signature(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    taken: _Arguments,
    scalars: frozenset[int | str],
    rule: PlaceRule | None,
) -> Signature:
    operands = iter(range(len(taken.nodes)))
    numbers = iter(range(len(taken.scalars)))

    def template(value: Any, is_scalar: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            return Operand(next(operands))
        if is_scalar and value.__class__ is float:
            return Scalar(next(numbers))
        if isinstance(value, (list, tuple)):
            return [template(each) for each in value]
        return value

    kept = {k: v for k, v in kwargs.items() if k not in DROPPED and v is not None}
    specs = tuple(node.spec for node in taken.nodes)
    return Signature(
        op,
        [template(value, at in scalars) for at, value in enumerate(args)],
        {key: template(value, key in scalars) for key, value in kept.items()},
        specs,  # type: ignore[arg-type]
        tuple(taken.scalars),
        tuple(taken.layouts),
        rule,
    )


# On the host


def value_of(tensor: torch.Tensor) -> DeviceArray:
    """The array of a tensor of the device, computed now if it is not yet."""
    inner: Any = hooks.unwrapped(tensor) if hooks.is_functional(tensor) else tensor
    node: Node = inner.handle.node
    if node.value is None:
        compute([node])
    assert node.value is not None
    return node.value


def download(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor of the device, on the host; any other tensor as it is."""
    if hooks.is_functional(tensor):
        tensor = hooks.unwrapped(tensor)
    if not isinstance(tensor, Inner):
        return tensor
    spec = tensor.handle.node.spec
    assert spec is not None
    return tensor_from(value_of(tensor), spec)


def mapped(value: Any, function: Any) -> Any:
    """Arguments or results with a function applied to each tensor."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return [mapped(each, function) for each in value]
    if isinstance(value, dict):
        return {name: mapped(each, function) for name, each in value.items()}
    return value


def on_host(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
    """Runs torch's own kernel on copies of the operands; the results are put on the device."""
    given = mapped(kwargs, download)
    if "device" in given:
        given["device"] = torch.device("cpu")
    if given.get("pin_memory"):
        given["pin_memory"] = False
    made = op(*mapped(args, download), **given)  # what torch refuses has not run
    COUNTS.host[str(op), why] += 1
    return mapped(made, _back)


def _back(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        raise refusal(
            UnsupportedError,
            f"a tensor of layout {tensor.layout}",
            where=f"device {STATE.name}",
            why="arrays of xladev are dense",
            hint="use dense tensors on the device, sparse ones on the host",
        )
    return upload(tensor)


def is_ours(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on the device."""
    return tensor.device.type == STATE.name


def hold(tensor: Inner, source: Inner) -> None:
    """A tensor stands for what another one does from now on, and keeps its strides."""
    tensor.handle = handle_of(source.handle.node, tensor.handle.layout)
