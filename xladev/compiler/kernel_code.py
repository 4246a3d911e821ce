"""One compiled kernel as data: code, entry symbol and launch dimensions; needs no device."""

from __future__ import annotations

from dataclasses import dataclass, field

from xladev.codegen.launch import Dim3, LaunchDimensions
from xladev.errors import ArgumentError

__all__ = ["Dim3", "KernelCode", "LaunchDimensions"]


@dataclass(frozen=True, slots=True)
class KernelCode:
    """What `Executor.load_kernel` is given.

    Attributes:
        entry: symbol of the kernel in ``code``.
        code: bytes in a form that the platform chooses (object code, PTX, a blob, text).
        dimensions: how many instances one launch runs.
        format: what ``code`` is, such as ``elf`` or ``ptx``; for messages and dumps.
        workspace_nbytes: memory that one launch wants for itself; if any, it is the last buffer.
            Its contents are arbitrary when the kernel starts, and lost when it ends.
        then: launched after it, one after the other, on the same buffers; these say nothing of
            workspace, and have no ``then`` of their own.
        shares: name of what launches share beside their buffers, such as memory of a library:
            those of one name never run at once. Empty for nothing.
    """

    entry: str
    code: bytes = field(repr=False)
    dimensions: LaunchDimensions = LaunchDimensions()
    format: str = ""
    workspace_nbytes: int = 0
    then: tuple[KernelCode, ...] = ()
    shares: str = ""

    def __post_init__(self) -> None:
        code: object = self.code
        if not isinstance(code, bytes):
            raise ArgumentError(
                f"the code of kernel {self.entry!r} is a {type(code).__name__}",
                why="code has to be of type bytes, which caches and certificates keep",
                hint="bytes(...) makes them of a list of small numbers, tobytes() of an array",
            )

    @property
    def launches(self) -> tuple[KernelCode, ...]:
        """All that is launched: the kernel itself, then what follows it."""
        return (self, *self.then)
