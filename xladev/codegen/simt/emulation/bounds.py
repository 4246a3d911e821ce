"""Bounds checks: the accesses of a neutral thread function, each tied to the array it belongs to.

The text is rewritten, not the emitters: what a GPU runs is what is checked. An access that does not
are within its array is recorded as a fault, and goes to a sink instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xladev.codegen.simt.emulation import races
from xladev.codegen.simt.primitives import CONTEXT, THREAD
from xladev.errors import CompileError

CHECK = "xd.checked"
"""Symbol of `ptr (context, address, base, bytes accessed, bytes of the array, array number)`."""
ALIGNED = "xd.aligned"
"""Symbol of `void (context, address, base, bytes that the access is aligned to)`."""
MISALIGNED = -6
"""Array number of a fault that is no access out of bounds; its length is the alignment."""
SHARED = -1
"""Number of the block's shared memory among the arrays of a report."""

_ADDRESS = re.compile(r"\s*(%[\w.]+) = getelementptr (?:inbounds )?[^,]+, ptr ([%@][\w.]+),")
_LOAD = re.compile(r"(\s*%[\w.]+ = load (?:volatile )?)(<[^>]+>|\w+), ptr (%[\w.]+)(,.*)$")
_STORE = re.compile(r"(\s*store )(<[^>]+>|\w+) (.+), ptr (%[\w.]+)(, align.*)$")
_ATOMIC = re.compile(r"(\s*call void @xd\.atomic\.\w+\.(i\d+)\(ptr %simt, ptr )(%[\w.]+)(,.*)$")
_ALIGN = re.compile(r"\balign (\d+)")
_SHARED = re.compile(r"\s*(%[\w.]+) = call ptr @xd\.shared\(")
_WIDTHS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}


def with_bounds_checks(
    text: str, parameters: Sequence[str], nbytes: Sequence[int], shared_nbytes: int = 0
) -> str:
    """A module whose thread function checks each access to its arrays.

    Args:
        text: of the module.
        parameters: names of the thread function's arrays.
        nbytes: length of each of them.
        shared_nbytes: length of the block's shared memory; array number -1 in reports.
    """
    begin = text.index(f"define internal void @{THREAD}(")
    end = text.index("\n}", begin)
    rewriter = _Rewriter(parameters, nbytes, shared_nbytes)
    body = "\n".join(line for old in text[begin:end].split("\n") for line in rewriter.lines(old))
    return text[:begin] + body + text[end:]


class _Rewriter:
    """Follows addresses back to the parameter that they were computed from."""

    def __init__(
        self, parameters: Sequence[str], nbytes: Sequence[int], shared_nbytes: int
    ) -> None:
        self._roots = {f"%{name}": f"%{name}" for name in parameters}
        self._arrays = {
            f"%{name}": (number, size)
            for number, (name, size) in enumerate(zip(parameters, nbytes, strict=True))
        }
        self._shared_nbytes = shared_nbytes
        self._count = 0

    def lines(self, line: str) -> list[str]:
        """What becomes of a line."""
        found = _ADDRESS.match(line)
        if found:
            result, base = found.groups()
            self._roots[result] = self._roots.get(base, base)
            return [line]
        shared = _SHARED.match(line)
        if shared:
            self._arrays[shared.group(1)] = (SHARED, self._shared_nbytes)
            return [line]
        load = _LOAD.match(line)
        if load:
            head, type_, address, tail = load.groups()
            check, safe = self._checked(type_, address, writes=False)
            check += self._aligned(type_, address, tail)
            return [*check, f"{head}{type_}, ptr {safe}{tail}"]
        store = _STORE.match(line)
        if store:
            head, type_, value, address, tail = store.groups()
            check, safe = self._checked(type_, address, writes=True)
            check += self._aligned(type_, address, tail)
            return [*check, f"{head}{type_} {value}, ptr {safe}{tail}"]
        atomic = _ATOMIC.match(line)
        if atomic:
            head, type_, address, tail = atomic.groups()
            check, safe = self._checked(type_, address)
            return [*check, f"{head}{safe}{tail}"]
        return [line]

    def _aligned(self, type_: str, address: str, tail: str) -> list[str]:
        """Lines that check what a vector says of its address: a GPU would stop there."""
        root, align = self._roots.get(address, address), _ALIGN.search(tail)
        if root not in self._arrays or not align or not type_.startswith("<"):
            return []
        return [
            f"  call void @{ALIGNED}(ptr %{CONTEXT}, ptr {address}, ptr {root}, i64 {align[1]})"
        ]

    def _checked(
        self, type_: str, address: str, *, writes: bool | None = None
    ) -> tuple[list[str], str]:
        """Lines that check an access, and the address to use; ``writes`` is None for atomics."""
        root = self._roots.get(address, address)
        array = self._arrays.get(root)
        if array is None:
            if root.startswith("%") and not root.startswith("%stack"):
                raise CompileError(f"an access to {address} belongs to no array of the kernel")
            return [], address
        self._count += 1
        number, nbytes = array
        safe, length = f"%checked{self._count}", _access_nbytes(type_)
        lines = [
            f"  {safe} = call ptr @{CHECK}(ptr %{CONTEXT}, ptr {address}, ptr {root}, "
            f"i64 {length}, i64 {nbytes}, i64 {number})"
        ]
        if number == SHARED and writes is not None:
            lines.append(
                f"  call void @{races.CALL}(ptr %{CONTEXT}, ptr {address}, ptr {root}, "
                f"i64 {length}, i64 {nbytes}, i1 {str(writes).lower()})"
            )
        return lines, safe


def _access_nbytes(type_: str) -> int:
    """Bytes of a value in memory."""
    vector = re.fullmatch(r"<(\d+) x (\w+)>", type_)
    if vector:
        return int(vector.group(1)) * _access_nbytes(vector.group(2))
    return _WIDTHS[type_] if type_ in _WIDTHS else (int(type_[1:]) + 7) // 8
