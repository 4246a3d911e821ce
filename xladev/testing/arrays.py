"""Arrays in npz files: ``in_*`` and ``out_*``, low-precision ones as unsigned integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xladev.errors import ArgumentError, FileError, FormatError
from xladev.hlo import dtype as dt
from xladev.hlo import nested_values
from xladev.hlo.array_files import ARRAY_FILE_DAMAGE
from xladev.hlo.literal import Array
from xladev.hlo.shape import Shape
from xladev.instrument import pass_interruption

_FIRST = 4


def read_arrays(path: Path, prefix: str, shapes: Sequence[Shape]) -> list[Any] | None:
    """Values of these shapes from the arrays of a file whose names begin with ``prefix``.

    Args:
        path: an npz file; arrays are taken in the order of their names.
        prefix: ``in_`` or ``out_``.
        shapes: one per value; tuples take one array per leaf.

    Returns:
        The values, nested as the shapes are; None if the file has no such array.

    Raises:
        FileError: the file cannot be read.
        FormatError: no npz file.
        ArgumentError: too few or too many arrays, or one that does not fit its shape.
    """
    arrays = _stored(path, prefix)
    if not arrays:
        return None
    leaves = [leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array]
    if len(arrays) != len(leaves):
        raise ArgumentError(
            f"{path} has {len(arrays)} arrays called {prefix}*, the program wants {len(leaves)}"
        )
    fitted = iter([_fitted(a, leaf, path) for a, leaf in zip(arrays, leaves, strict=True)])
    return [nested(shape, fitted) for shape in shapes]


def _stored(path: Path, prefix: str) -> list[Array]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return [stored[key] for key in sorted(stored) if key.startswith(prefix)]
    except OSError as e:
        pass_interruption(e)
        raise FileError.of("cannot read arrays from", path, e) from e
    except ARRAY_FILE_DAMAGE as e:
        raise FormatError(
            f"cannot read arrays from {path}",
            where=str(path),
            why="it is no npz file of plain arrays, or damaged",
            hint="numpy.savez(path, in_0000=..., out_0000=...) writes such a file",
        ) from e


def _fitted(array: Array, shape: Shape, path: Path) -> Array:
    """The array with the dtype of the shape, reinterpreted where stored as unsigned integers."""
    want = shape.element_type.np
    if array.dtype != want and array.dtype.kind in "uV" and array.dtype.itemsize == want.itemsize:
        array = array.view(want)
    if array.dtype != want or not _is_live_part(array, shape):
        raise ArgumentError(
            f"{path} has {array.dtype}{list(array.shape)}",
            why=f"the program wants {shape.to_string(layout=False)}",
        )
    return array


def _is_live_part(array: Array, shape: Shape) -> bool:
    """True if the sizes are those of the shape, or less where a dimension is dynamic."""
    return len(array.shape) == shape.rank and all(
        size == dim or (shape.is_dynamic_dimension(d) and size < dim)
        for d, (size, dim) in enumerate(zip(array.shape, shape.dims, strict=True))
    )


def nested(shape: Shape, arrays: Iterator[Array]) -> Any:
    """The next arrays, nested as the shape is; None for a token."""
    return nested_values.nested(shape, lambda s: next(arrays) if s.is_array else None)


def save_arrays(path: Path, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Writes arguments and results to an npz file.

    Raises:
        FileError: it cannot be written.
    """
    named = {f"in_{n:04d}": _storable(a) for n, a in enumerate(inputs) if a is not None}
    named |= {f"out_{n:04d}": _storable(a) for n, a in enumerate(outputs)}
    try:
        np.savez(path, **named)  # type: ignore[arg-type]
    except OSError as e:
        pass_interruption(e)
        raise FileError.of("cannot write", path, e) from e


def _storable(value: Any) -> Array:
    """NumPy's own dtypes as they are, others as unsigned integers of their width."""
    array = np.asarray(value)
    native = array.dtype.isbuiltin == 1
    return array if native else array.view(f"u{array.dtype.itemsize}")


def named_arrays(results: Sequence[Array]) -> list[dict[str, Any]]:
    """Name, shape, mean and first values of each result, as text."""
    rows: list[dict[str, Any]] = []
    for number, array in enumerate(results):
        flat = array.reshape(-1)
        wide = flat.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        more = ", ..." if flat.size > _FIRST else ""
        with np.errstate(all="ignore"):
            mean = f"{wide.mean():.6g}" if flat.size else "-"
        rows.append(
            {
                "name": f"out_{number:04d}",
                "shape": f"{dt.by_numpy(array.dtype)}[{','.join(map(str, array.shape))}]",
                "mean": mean,
                "values": ", ".join(str(x) for x in flat[:_FIRST]) + more,
            }
        )
    return rows
