"""The intrinsics that may be emitted: LLVM aborts the process on one that it cannot lower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xladev.codegen.llvm.types import IrType
from xladev.errors import CompileError

_FLOATS = frozenset({"float", "double"})
_INTEGERS = frozenset({"i1", "i2", "i4", "i8", "i16", "i32", "i64", "i128"})


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One overloaded intrinsic.

    Attributes:
        arity: number of value operands, all of the overloaded type.
        elements: element types of the operands that it is allowed on.
        suffix: constant operands that follow, such as ``i1 false``.
        result: ``same`` as the operand; ``element`` for reductions over lanes; ``given`` where the
            result type is an overload of its own.
    """

    arity: int
    elements: frozenset[str]
    suffix: str = ""
    result: str = "same"

    def check(self, name: str, type_: IrType, count: int) -> None:
        """Raises CompileError unless ``count`` operands of ``type_`` are allowed."""
        if count != self.arity:
            raise CompileError(f"intrinsic {name} takes {self.arity} operands, {count} were given")
        if type_.element not in self.elements:
            raise CompileError(
                f"intrinsic {name} is not allowed on {type_}",
                why="LLVM aborts the process on intrinsics that a target cannot lower",
                hint=f"convert to one of {', '.join(sorted(self.elements))}",
            )


def _table(names: str, row: Intrinsic) -> dict[str, Intrinsic]:
    return dict.fromkeys(names.split(), row)


INTRINSICS: Mapping[str, Intrinsic] = MappingProxyType(
    {
        **_table("fabs sqrt floor ceil trunc rint round roundeven", Intrinsic(1, _FLOATS)),
        **_table("copysign minimum maximum minnum maxnum", Intrinsic(2, _FLOATS)),
        "arithmetic.fence": Intrinsic(1, _FLOATS),
        "fma": Intrinsic(3, _FLOATS),
        **_table("ctpop bitreverse", Intrinsic(1, _INTEGERS)),
        "bswap": Intrinsic(1, frozenset({"i16", "i32", "i64"})),
        **_table("ctlz cttz abs", Intrinsic(1, _INTEGERS, suffix="i1 false")),
        **_table("smax smin umax umin", Intrinsic(2, _INTEGERS)),
        **_table("sadd.sat uadd.sat ssub.sat usub.sat", Intrinsic(2, _INTEGERS)),
        **_table("fshl fshr", Intrinsic(3, _INTEGERS)),
        **_table("fptosi.sat fptoui.sat", Intrinsic(1, _FLOATS, result="given")),
        **_table(
            "vector.reduce.add vector.reduce.and vector.reduce.or vector.reduce.smax "
            "vector.reduce.smin vector.reduce.umax vector.reduce.umin",
            Intrinsic(1, _INTEGERS, result="element"),
        ),
        **_table(
            "vector.reduce.fmaximum vector.reduce.fminimum",
            Intrinsic(1, _FLOATS, result="element"),
        ),
    }
)  # fmt: skip


def lookup(name: str) -> Intrinsic:
    """The row of an intrinsic; CompileError if it may not be emitted."""
    found = INTRINSICS.get(name)
    if found is None:
        raise CompileError(
            f"intrinsic llvm.{name} is not on the list of intrinsics that may be emitted",
            why="LLVM aborts the process on intrinsics that a target cannot lower",
            hint="add it to codegen/llvm/intrinsics.py with a test for each target",
        )
    return found
