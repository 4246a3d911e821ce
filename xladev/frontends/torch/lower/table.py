"""The table of lowerings: which function makes HLO of an operator's overload.

A family is a file of lowerings; `every.LOWERINGS` holds all of them. A lowering is called with the
builder, the shape of its result (a tuple of shapes where there are several), and the operator's own
arguments: a `Value` for each tensor, an HLO element type for a dtype, Python values otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xladev.errors import UnsupportedError
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

Out = Any
"""The shape of the result; a tuple of shapes, None for a result that is not wanted."""

Function = Callable[..., Any]


class NotLowered(UnsupportedError):
    """An operator, or a way to use it, that has no lowering."""

    code = "TORCH_NOT_LOWERED"
    rule = "an operator becomes HLO by a lowering in xladev/frontends/torch/lower"
    advice = "PyTorch itself runs this operator; docs/reference/torch-ops.md lists what is lowered"


@dataclass(frozen=True, slots=True)
class Lowering:
    """How one overload becomes HLO.

    Attributes:
        overload: such as ``aten.add.Tensor``.
        function: makes the HLO.
        family: the file it is in.
        summary: one line for the reference.
        sample: the entry of torch's operator database whose samples use this overload.
        wide: bf16 and f16 are computed in f32 and rounded once, as torch's CPU does.
    """

    overload: str
    function: Function
    family: str
    summary: str
    sample: str
    wide: bool

    def __call__(
        self, builder: TensorBuilder, out: Out, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """The operator's results as values of the types that ``out`` says.

        Raises:
            NotLowered: the arguments ask for something that has no lowering.
            ShapeError: the lowering broke a rule of HLO.
        """
        if _is_empty(out):
            return _filled(builder, out)
        if not self.wide:
            return _finished(self.function(builder, out, *args, **kwargs), out)
        made = self.function(
            builder, _map(out, _wider_shape), *_wider(args), **_wider(dict(kwargs))
        )
        return _finished(made, out)


class Family:
    """Lowerings of one kind.

    Args:
        name: of the file.
        summary: what they are.
        wide: whether narrow floats are computed in f32.
    """

    def __init__(self, name: str, summary: str, *, wide: bool = False) -> None:
        self.name = name
        self.summary = summary
        self.wide = wide
        self.lowerings: dict[str, Lowering] = {}

    def __iter__(self) -> Iterator[Lowering]:
        return iter(self.lowerings.values())

    def lowers(
        self, *overloads: str, sample: str = "", wide: bool | None = None
    ) -> Callable[[Function], Function]:
        """Puts a function into the table for these overloads.

        Args:
            overloads: without the leading ``aten.``, unless of another library.
            sample: entry of the operator database; else the name of the operator.
            wide: overrides the family's.
        """

        def put(function: Function) -> Function:
            for overload in overloads:
                self.add(overload, function, sample=sample, wide=wide)
            return function

        return put

    def add(
        self,
        overload: str,
        function: Function,
        *,
        sample: str = "",
        summary: str = "",
        wide: bool | None = None,
    ) -> None:
        """Puts one overload into the table."""
        full = overload if overload.count(".") > 1 else f"aten.{overload}"
        assert full not in self.lowerings, full
        text = summary or (inspect.getdoc(function) or "").split("\n")[0]
        name = sample or full.split(".")[1]
        is_wide = self.wide if wide is None else wide
        self.lowerings[full] = Lowering(full, function, self.name, text, name, is_wide)


def _is_empty(out: Out) -> bool:
    """Whether no result has elements, so that nothing need be computed: HLO's gather and its like
    refuse operands without elements."""
    if isinstance(out, Shape):
        return 0 in out.dims
    return bool(out) and all(_is_empty(each) for each in out)


def _filled(builder: TensorBuilder, out: Out) -> Any:
    """Results without elements."""
    if isinstance(out, Shape):
        return builder.full(0, out.element_type, out.dims)
    return tuple(_filled(builder, each) for each in out)


_WIDER = {dt.BF16: dt.F32, dt.F16: dt.F32}


def _wider_shape(shape: Shape) -> Shape:
    return replace(shape, element_type=_WIDER.get(shape.element_type, shape.element_type))


def _wider(value: Any) -> Any:
    if isinstance(value, Value):
        return value.cast(_WIDER.get(value.dtype, value.dtype))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_wider, value))
    if isinstance(value, dict):
        return {name: _wider(each) for name, each in value.items()}
    return value


def _map(out: Out, function: Callable[[Shape], Shape]) -> Out:
    if isinstance(out, Shape):
        return function(out)
    return None if out is None else tuple(_map(each, function) for each in out)


def _finished(made: Any, out: Out) -> Any:
    """Results in the types that are wanted; their sizes must be right already."""
    if out is None:
        return None
    if not isinstance(out, Shape):
        made = tuple(made)
        if len(made) != len(out):
            raise NotLowered(f"a lowering gave {len(made)} results, wanted {len(out)}")
        return tuple(_finished(each, shape) for each, shape in zip(made, out, strict=True))
    wanted = out.to_string(layout=False)
    if not isinstance(made, Value):
        raise NotLowered(f"a lowering gave nothing, wanted {wanted}")
    if made.dims != out.dims:
        given = made.node.shape.to_string(layout=False)
        raise NotLowered(f"a lowering gave {given}, wanted {wanted}")
    return made.cast(out.element_type)
