"""Functions that users write and programs call: what is said where one fails.

Whatever such a function raises, or gives that does not fit, is a mistake in it, not in the program,
a backend or a device. The error says so, and shows the user's lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import indent
from traceback import TracebackException
from types import TracebackType

import numpy as np

from xladev.errors import UserFunctionError
from xladev.hlo.literal import Value
from xladev.hlo.shape import Shape
from xladev.instrument import is_interruption

_NOT_USERS = frozenset({"jax", "jaxlib", "xladev"})
"""Packages between a program and the functions that it calls."""


@contextmanager
def user_function(
    what: str, *, called_at: str = "", passes: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Surrounds the call of a function that a user wrote.

    Args:
        what: the function, as the error names it: ``the Python callback``.
        called_at: ``file:line`` of the program that calls it; empty if nobody knows.
        passes: what stays as it is, besides Ctrl-C, what handlers of signals raise, and errors of
            this kind.

    Raises:
        UserFunctionError: instead of what the function raised, whose traceback it tells.
    """
    stays: tuple[type[BaseException], ...] = (KeyboardInterrupt, UserFunctionError, *passes)
    try:
        yield
    except stays:
        raise
    except BaseException as error:
        if is_interruption(error):
            raise
        raise _failure(error, what, called_at) from error


def fitted(value: Value, shape: Shape, what: str, part: str = "") -> Value:
    """What a function that a user wrote gave, as the value of an instruction.

    Args:
        value: an array or what NumPy makes one of, for a tuple a tuple or list of such. Dynamic
            dimensions have any size up to their bounds.
        shape: of the instruction.
        what: the function, as the error names it.
        part: of the result, as the error names it; empty for all of it.

    Raises:
        UserFunctionError: a shape, a dtype or a number of parts is not what ``shape`` says.
    """
    if shape.is_tuple:
        if not isinstance(value, tuple | list) or len(value) != len(shape.tuple_shapes):
            raise _misfit(value, shape, what, part)
        pairs = enumerate(zip(value, shape.tuple_shapes, strict=True))
        return tuple(fitted(v, s, what, f"{part}{{{n}}}") for n, (v, s) in pairs)
    if not shape.is_array:
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of several lengths
        raise _misfit(value, shape, what, part) from error
    if array.dtype != shape.element_type.np or not shape.fits(array.shape):
        raise _misfit(value if array.dtype == object else array, shape, what, part)
    return array


def _misfit(value: Value, shape: Shape, what: str, part: str) -> UserFunctionError:
    given = type(value).__name__
    if isinstance(value, np.ndarray):
        given = f"{value.dtype}{list(value.shape)}"
    elif isinstance(value, tuple | list):
        given = f"a {given} of {len(value)}"
    declared = shape.to_string(layout=False)
    return UserFunctionError(
        f"{what} gave {given} as {f'part {part}' if part else 'its result'}, not {declared}",
        why="the program declares the shape of the call's result",
    )


def _failure(error: BaseException, what: str, called_at: str) -> UserFunctionError:
    told = TracebackException.from_exception(error)
    _leave_users_frames(told, error)
    places = [f"{frame.filename}:{frame.lineno}, in {frame.name}" for frame in told.stack[:1]]
    places += [f"called at {called_at}"] if called_at else []
    first, *_ = str(error).split("\n")
    return UserFunctionError(
        f"{what} raised {type(error).__name__}: {first}",
        where="; ".join(places) or None,
        why="this happened in it:\n" + indent("".join(told.format()).rstrip(), "    "),
    )


def _leave_users_frames(told: TracebackException, error: BaseException) -> None:
    """Takes the frames of `_NOT_USERS` out, also of the errors that led to this one."""
    seen: set[int] = set()
    pairs: list[tuple[TracebackException | None, BaseException | None]] = [(told, error)]
    while pairs:
        shown, raised = pairs.pop()
        if shown is None or raised is None or id(raised) in seen:
            continue
        seen.add(id(raised))
        kept = [
            frame
            for frame, owner in zip(shown.stack, _packages(raised.__traceback__), strict=False)
            if owner not in _NOT_USERS
        ]
        shown.stack[:] = kept
        pairs += [(shown.__cause__, raised.__cause__), (shown.__context__, raised.__context__)]


def _packages(traceback: TracebackType | None) -> Iterator[str]:
    """The package that each frame's code belongs to."""
    while traceback is not None:
        yield str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        traceback = traceback.tb_next
