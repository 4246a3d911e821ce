"""What functions of a transform that go over rows share: arguments, factors, the loop of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind
from xladev.platforms.cpu.codegen.fourier.places import Factors, Form


class RowArguments(Protocol):
    """What every such function is called with: addresses, and steps in bytes."""

    @property
    def source(self) -> Value:
        """First element of the operand; pairs, real numbers or real parts."""

    @property
    def source_imaginary(self) -> Value:
        """First imaginary part of the operand, of planes alone."""

    @property
    def result(self) -> Value:
        """First element of the result."""

    @property
    def result_imaginary(self) -> Value:
        """First imaginary part of the result, of planes alone."""

    @property
    def factors(self) -> Value:
        """Four elements; see `Factors`."""

    @property
    def rows(self) -> Value:
        """How many rows."""

    @property
    def source_row(self) -> Value:
        """From one row of the operand to the next."""

    @property
    def result_row(self) -> Value:
        """From one row of the result to the next."""


ArgumentsT = TypeVar("ArgumentsT", bound=RowArguments)
FormT = TypeVar("FormT")


class RowFunction(ABC, Generic[FormT, ArgumentsT]):
    """The code of one function: what it depends on, what it is called with, its loop of rows."""

    def __init__(self, b: FunctionBuilder, kind: FourierKind, form: FormT, a: ArgumentsT) -> None:
        self.b, self.kind, self.form, self.a = b, kind, form, a
        self.factors = Factors.load(b, kind, a.factors)

    def emit(self) -> None:
        """All rows, one after the other."""
        b, a = self.b, self.a
        with b.loop(0, a.rows) as row:
            operand, written = (a.source, a.source_imaginary), (a.result, a.result_imaginary)
            source = [b.byte_address(x, b.mul(row, a.source_row)) for x in operand]
            result = [b.byte_address(x, b.mul(row, a.result_row)) for x in written]
            self.row(source, result)

    @abstractmethod
    def row(self, source: list[Value], result: list[Value]) -> None:
        """One row, given where it begins: real parts or pairs, and imaginary parts."""

    def at(self, bases: list[Value], number: Value, form: Form | None) -> list[Value]:
        """Addresses of an element; ``form`` is None for real numbers."""
        offset = self.b.mul(number, self.kind.nbytes * (form.parts if form else 1))
        return [self.b.byte_address(base, offset) for base in bases]
