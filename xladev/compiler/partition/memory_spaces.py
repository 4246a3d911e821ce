"""The memory spaces, ``S(n)`` of a layout, in which a program's parameters and results are wanted.

Regions work in the device's first memory: values are copied from and to the others. What a layout
says of values within a program is a matter of whoever compiled it before, and is left to the
backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xladev.compiler.description import DeviceDescription
from xladev.errors import UnsupportedError
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape


@dataclass(frozen=True, slots=True)
class EntrySpaces:
    """Memory spaces by leaf.

    Attributes:
        parameters: of the leaves of all parameters.
        results: of the leaves of the result.
    """

    parameters: tuple[int, ...]
    results: tuple[int, ...]

    def __bool__(self) -> bool:
        return any((*self.parameters, *self.results))


def entry_spaces(module: HloModule, device: DeviceDescription, platform: str) -> EntrySpaces:
    """Where the layouts of a module's interface want its values.

    Args:
        module: the program.
        device: the device that it is compiled for.
        platform: its name, for messages.

    Raises:
        UnsupportedError: the device has no such memory space.
    """
    layout = module.entry_layout
    for number, shape in enumerate(layout.parameters):
        _check(shape, f"parameter {number}", module, device, platform)
    _check(layout.result, "the result", module, device, platform)
    parameters = (space for shape in layout.parameters for space in _spaces(shape))
    return EntrySpaces(tuple(parameters), tuple(_spaces(layout.result)))


def in_spaces(shape: Shape, spaces: Iterator[int]) -> Shape:
    """The shape with its leaves in the next ones of these memory spaces."""
    if shape.is_tuple:
        parts = tuple(in_spaces(part, spaces) for part in shape.tuple_shapes)
        return replace(shape, tuple_shapes=parts)
    return in_space(shape, next(spaces, 0))


def in_space(shape: Shape, space: int) -> Shape:
    """An array in a memory space; tokens and arrays without layout stay as they are."""
    if not space or shape.layout is None:
        return shape
    return shape.with_layout(replace(shape.layout, memory_space=space))


def _spaces(shape: Shape) -> Iterator[int]:
    for _, leaf in shape.leaves():
        yield leaf.layout.memory_space if leaf.layout else 0


def _check(
    shape: Shape, what: str, module: HloModule, device: DeviceDescription, platform: str
) -> None:
    known: Sequence[str] = [f"S({n}) {each.name}" for n, each in enumerate(device.memory_spaces)]
    for space in _spaces(shape):
        if space >= len(known):
            raise UnsupportedError(
                f"{what} is wanted in memory space S({space})",
                where=f"module {module.name}: {what} is {shape}",
                why=f"{platform} has {', '.join(known)}",
                hint="leave S(n) out of the layout, or describe that memory in "
                "DeviceDescription.memory_spaces",
            )
