"""What of a program is wanted: which values are fed, bound to constants, and fetched."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from xladev.errors import ArgumentError, FileError, UsageError
from xladev.hlo.array_files import ARRAY_FILE_DAMAGE
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Literal, has_mask
from xladev.hlo.shape import Shape
from xladev.instrument import pass_interruption

HostArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Feed:
    """A value that the caller gives.

    Attributes:
        what: number of a parameter, or the name of any instruction of the entry computation; one
            that is no parameter is not computed any more.
        name: of the argument in C; empty for one made from the instruction.
    """

    what: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A value that the caller wants.

    Attributes:
        what: index of a result (``0``, ``1.0`` inside tuples), or the name of any instruction of
            the entry computation.
        name: of the result in C; empty for one made from the index or the instruction.
    """

    what: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """A value that is fixed at compile time.

    Attributes:
        what: as in `Feed`.
        value: a number, nested lists of numbers, an array, or the path of a ``.npy`` file; for one
            array of a ``.npz`` file, the path, a colon and the array's name.
    """

    what: str
    value: Any


@dataclass(frozen=True, slots=True)
class Selection:
    """Feeds, bindings and fetches.

    Without fetches, all results are wanted. Parameters that are neither fed nor bound stay
    arguments, after those that are fed, if a wanted result needs them. Where there are feeds,
    bindings or fetches, the others go.
    """

    feeds: tuple[Feed, ...] = ()
    fetches: tuple[Fetch, ...] = ()
    bindings: tuple[Binding, ...] = ()

    @property
    def is_everything(self) -> bool:
        """True if the program is wanted as it is."""
        return not (self.feeds or self.fetches or self.bindings)

    def __add__(self, other: Selection) -> Selection:
        return Selection(
            self.feeds + other.feeds,
            self.fetches + other.fetches,
            self.bindings + other.bindings,
        )


def parse_named(text: str, option: str) -> tuple[str, str]:
    """(what, name) of ``NAME=WHAT`` or ``WHAT``.

    Raises:
        UsageError: an empty side.
    """
    name, equals, what = text.rpartition("=")
    if not what or (equals and not name):
        raise UsageError(
            f"{option} {text!r}",
            why="it is WHAT, or NAME=WHAT where the name in C shall be another",
            hint=f"{option} images=x.1",
        )
    return what, name


def parse_binding(text: str) -> Binding:
    """The binding ``WHAT=VALUE``; the value is JSON or a file.

    Raises:
        UsageError: no equals sign, or an empty side.
    """
    what, _, value = text.partition("=")
    if not (what and value):
        raise UsageError(
            f"--constant {text!r}",
            why="it is WHAT=VALUE: a number, a JSON list, FILE.npy or FILE.npz:NAME",
            hint="--constant W.1=weights.npz:W",
        )
    try:
        return Binding(what, json.loads(value))
    except (ValueError, RecursionError):
        return Binding(what, value)


def bound_literal(binding: Binding, shape: Shape) -> Literal:
    """The constant that a binding gives a value of ``shape``.

    Args:
        binding: what is fixed, and to what.
        shape: array shape of the value.

    Raises:
        FileError: the file cannot be read.
        ArgumentError: the value has other dims or another type, or is out of range.
    """
    if not shape.is_array or shape.is_dynamic:
        raise _misfit(binding, f"only arrays of fixed sizes are bound; it is {shape}")
    value = binding.value
    if has_mask(value):
        raise _misfit(binding, "it is masked, and a constant has no mask: value.filled(number)")
    if isinstance(value, str):
        value = _read_array(value, binding)
    if isinstance(value, np.ndarray):
        return Literal(shape.without_layout(), _converted(value, shape, binding))
    return Literal(shape.without_layout(), _of_numbers(value, shape, binding))


def _converted(value: HostArray, shape: Shape, binding: Binding) -> HostArray:
    """The array in the dtype of the shape, whose bits a file may hold as unsigned integers."""
    wanted = shape.element_type.np
    if value.dtype != wanted and value.dtype.kind in "uV" and wanted.kind not in "biufc":
        value = value.view(wanted) if value.dtype.itemsize == wanted.itemsize else value
    if value.dtype != wanted or value.shape != shape.dims:
        raise _misfit(binding, f"it is {shape.without_layout()}, not {value.dtype}{value.shape}")
    return np.ascontiguousarray(value)


def _of_numbers(value: Any, shape: Shape, binding: Binding) -> HostArray:
    """Numbers in JSON, all representable; one number fills the array."""
    wanted = shape.element_type
    try:
        given = np.asarray(value)
        if given.dtype.kind not in ("biuf" if wanted.is_float or wanted.is_complex else "biu"):
            raise _misfit(binding, f"{wanted.name} holds no such value")
        with np.errstate(over="ignore"):  # said below
            array = np.asarray(value, wanted.np)
    except (ValueError, TypeError, OverflowError) as error:
        raise _misfit(binding, str(error)) from error
    if not _is_kept(given, array, wanted):
        raise _misfit(binding, f"it is out of the range of {wanted.name}")
    if array.shape not in ((), shape.dims):
        raise _misfit(binding, f"it is {shape.without_layout()}, not of sizes {array.shape}")
    return np.ascontiguousarray(np.broadcast_to(array, shape.dims)).reshape(shape.dims)


def _is_kept(given: HostArray, array: HostArray, wanted: PrimitiveType) -> bool:
    """False if a conversion made another integer of one, or no number of a number."""
    if wanted.is_float or wanted.is_complex:
        finite = np.isfinite(given)
        return np.array_equal(finite, np.isfinite(array)) and not np.any(
            np.abs(given[finite]) > _most(wanted)
        )
    return np.array_equal(given, array.astype(given.dtype))


def _most(wanted: PrimitiveType) -> float:
    """The magnitude from which on numbers do not round to a finite one, but may saturate."""
    dtype = wanted.component.np if wanted.is_complex else wanted.np
    limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    most = float(limits.max)
    return most + 2.0 ** (math.frexp(most)[1] - 2 - int(limits.nmant))


def _read_array(text: str, binding: Binding) -> HostArray:
    path, key = Path(text), ""
    try:
        if not path.is_file() and ":" in text:
            before, _, key = text.rpartition(":")
            path = Path(before)
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return _array_of(found, key, path, binding)
    except OSError as error:
        pass_interruption(error)
        raise FileError.of("cannot read", path, error) from error
    except ARRAY_FILE_DAMAGE as error:
        raise _misfit(binding, f"{path} is no .npy or .npz file of plain arrays") from error


def _array_of(
    archive: Mapping[str, HostArray], key: str, path: Path, binding: Binding
) -> HostArray:
    if key in archive:
        return archive[key]
    raise _misfit(
        binding, f"{path} has the arrays {_listed(archive)}; name one as {path.name}:NAME"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "(none)"


def _misfit(binding: Binding, why: str) -> ArgumentError:
    return ArgumentError(
        f"{binding.what} cannot be bound to {_shown(binding.value)}",
        where=f"constant {binding.what}",
        why=why,
        hint="a number, a JSON list, FILE.npy or FILE.npz:NAME of the value's own dims and dtype",
    )


def _shown(value: Any) -> str:
    text = f"an array {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
