"""What is emitted for one matrix of a stack: calls of LAPACK, and memory for them."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I64, PTR, VOID, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.lapack.movement import (
    PARTS,
    call_fill,
    call_is_finite,
    call_transpose,
)
from xladev.platforms.cpu.lapack.routines import LIBRARY_PREFIX
from xladev.platforms.cpu.lapack.workspace import Argument, workspace_sizes

_ALIGNMENT = 64
_NBYTES = {"s": 4, "d": 8, "c": 8, "z": 16}
_NAN = {"s": (0x7FC00000,), "d": (0, 0x7FF80000), "c": (0x7FC00000, 0), "z": (0, 0x7FF80000)}
"""Words of a NaN; a complex one of f64 is two such numbers."""
NOT_FINITE = 1
"""Info of a matrix that is not finite, on which no iteration begins."""

Word = Value | int | str
"""An address, or a number or character that LAPACK is given the address of."""


class OneMatrix:
    """Memory of one matrix's operands and results, and the calls that go from one to the other.

    Attributes:
        b: writes the kernel.
        letter: LAPACK's letter of the element type.
        operands, results: addresses.
        nbytes: of an element.
        used: bytes of workspace so far.
    """

    def __init__(
        self,
        b: FunctionBuilder,
        letter: str,
        operands: Sequence[Value],
        results: Sequence[Value],
        workspace: Value,
    ) -> None:
        self.b, self.letter = b, letter
        self.operands, self.results = tuple(operands), tuple(results)
        self.nbytes = _NBYTES[letter]
        self.used = 0
        self._workspace = workspace

    @property
    def is_complex(self) -> bool:
        """Whether elements are."""
        return self.letter in "cz"

    @property
    def real_nbytes(self) -> int:
        """Bytes of an element's real part."""
        return self.nbytes // 2 if self.is_complex else self.nbytes

    # Memory

    def room(self, nbytes: int) -> Value:
        """Workspace that nothing else has."""
        place = self.b.byte_address(self._workspace, self.used)
        self.used += -(-max(nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        return place

    def elements(self, count: int) -> Value:
        """Workspace for elements."""
        return self.room(count * self.nbytes)

    def reals(self, count: int) -> Value:
        """Workspace for real numbers."""
        return self.room(count * self.real_nbytes)

    def integers(self, count: int) -> Value:
        """Workspace for integers."""
        return self.room(4 * count)

    def copy(self, destination: Value, source: Value, count: int) -> None:
        """Copies elements."""
        self.b.copy_bytes(destination, source, count * self.nbytes)

    def transpose(self, destination: Value, source: Value, rows: int, columns: int) -> None:
        """Writes the transpose of a row-major matrix."""
        if 1 in (rows, columns):
            self.copy(destination, source, rows * columns)
            return
        call_transpose(self.b, destination, source, (rows, columns), self.nbytes)

    def transposed(self, source: Value, rows: int, columns: int) -> Value:
        """The transpose of a row-major matrix, in workspace: column-major, it is the same one."""
        place = self.elements(rows * columns)
        self.transpose(place, source, rows, columns)
        return place

    def clear(self, destination: Value, nbytes: int) -> None:
        """Fills memory with zeros."""
        call_fill(self.b, destination, nbytes // 4, (0,))

    def fill_nan(self, destination: Value, count: int, *, real: bool = False) -> None:
        """Fills memory with elements, or real numbers, that are NaN."""
        letter = {"c": "s", "z": "d"}.get(self.letter, self.letter) if real else self.letter
        times = count * (2 if letter == "z" else 1)
        call_fill(self.b, destination, times, _NAN[letter])

    def store_info(self, info: Value, number: int) -> None:
        """Writes an info."""
        call_fill(self.b, info, 1, (number,))

    # Calls

    def word(self, number: int) -> Value:
        """Address of an integer or a character: the low bytes of 8."""
        return self.words(f"word.{number}", (number,))

    def words(self, name: str, numbers: tuple[int, ...]) -> Value:
        """Address of constants of 8 bytes each."""
        return self.b.table(f"lapack.{name}", I64, numbers)

    def call(self, routine: str, *arguments: Word) -> None:
        """Calls a routine, such as ``potrf``; operands are passed by address, as LAPACK wants."""
        symbol = f"{LIBRARY_PREFIX}{self.letter}{routine}"
        places = [self._place(argument) for argument in arguments]
        self.b.module.declare(symbol, VOID, ["ptr"] * len(places))
        self.b.loops.call(is_long=True)
        self.b.call_void(symbol, *places)

    def _place(self, argument: Word) -> Value:
        if isinstance(argument, Value):
            return argument
        return self.word(argument if isinstance(argument, int) else ord(argument))

    def sizes(self, routine: str, *arguments: Argument) -> tuple[int, ...]:
        """Lengths of workspaces, as the routine asks for them."""
        return workspace_sizes(self.letter + routine, *arguments)

    # Matrices that are not finite

    def finite(self, source: Value, rows: int, columns: int, triangle: str = "") -> Value:
        """Whether all elements of a row-major matrix, or of a triangle (L, U), are; a condition."""
        flag = self.room(8)
        parts = 2 if self.is_complex else 1
        runs = {"L": (0, 1, 1), "U": (1, columns, -1), "": (0, columns, 0)}
        shift, length, growth = (parts * x for x in runs[triangle])
        size = (rows, columns * parts)
        if not triangle:
            size, length = (1, 0), rows * columns * parts
        run = (shift, length, growth)
        call_is_finite(self.b, PARTS[self.letter], source, flag, size, run)
        return self.b.icmp("ne", self.b.load(I64, flag), 0)


NULL = Value("null", PTR)
"""No address: for code that is only counted."""
