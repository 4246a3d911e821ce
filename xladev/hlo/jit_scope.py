"""`with xladev.jit_scope("decoder"):`: what a builder appends in the block is compiled together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from xladev.errors import OptionError
from xladev.hlo.ir import Annotations, HloInstruction
from xladev.hlo.place_attributes import SCOPE_KEY

ALONE = "-"
"""Name of the scope of what is compiled with nothing else."""

_current: ContextVar[str] = ContextVar("xladev_jit_scope", default="")


@contextmanager
def jit_scope(name: str = "scope", *, compile: bool = True) -> Iterator[None]:
    """Marks what an `HloBuilder` appends within the block, in this thread or task.

    At levels 0 and 1 (`CompileOptions.compilation_level`), connected instructions of one scope are
    compiled together, and those of other scopes are not joined to them. The innermost block counts.

    Args:
        name: which scope; blocks of the same name are one scope.
        compile: False: each instruction of the block is compiled by itself.

    Raises:
        OptionError: the name is empty, or ``-``, which means the same as ``compile=False``.

    Example:
        >>> from xladev.hlo import dtype as dt
        >>> from xladev.hlo.builder import HloBuilder
        >>> from xladev.hlo.shape import array
        >>> b = HloBuilder("negated")
        >>> x = b.parameter(array(dt.F32, (2,)))
        >>> with jit_scope("first"):
        ...     y = b.op("negate", x)
        >>> scope_of(y)
        'first'
    """
    if not name or name == ALONE:
        raise OptionError(
            f"a scope cannot be named {name!r}",
            hint="give it another name, or write compile=False",
        )
    token = _current.set(name if compile else ALONE)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def unscoped() -> Iterator[None]:
    """Appends without a scope within the block: what the compiler builds is nobody's."""
    token = _current.set("")
    try:
        yield
    finally:
        _current.reset(token)


def scoped_note(note: Annotations, opcode: str) -> Annotations:
    """The annotations of a new instruction: with the scope of the block around it."""
    name = _current.get()
    if not name or opcode == "parameter" or dict(note.frontend_attributes).get(SCOPE_KEY):
        return note
    pairs = sorted((*note.frontend_attributes, (SCOPE_KEY, name)))
    return replace(note, frontend_attributes=tuple(pairs))


def scope_of(instruction: HloInstruction) -> str:
    """The scope that an instruction names, or none."""
    for key, value in instruction.note.frontend_attributes:
        if key == SCOPE_KEY:
            return value
    return ""
