"""Which custom calls and opcodes LAPACK computes, and the kernel of one: matrix after matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import PTR, VOID, ModuleBuilder, Parameter, Value
from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.registry import BUILT_IN, known
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.lapack import factors, spectra, systems
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.lapack.options import Options, options_of
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.lapack.routines import BEGIN, END

Emit = Callable[[OneMatrix, Options], None]
_MATRIX, _VECTOR = 2, 1
_SYSTEM = (_VECTOR, _VECTOR, _VECTOR, _MATRIX)
LETTERS: Mapping[dt.PrimitiveType, str] = MappingProxyType(
    {dt.F32: "s", dt.F64: "d", dt.C64: "c", dt.C128: "z"}
)
MOST_INT = 2**31 - 1
"""LAPACK counts in 32 bits."""


@dataclass(frozen=True, slots=True)
class LapackRoutine:
    """What LAPACK computes of a stack.

    Attributes:
        name: of the routine for real elements, as `choice` lists it.
        emit: code of one matrix.
        ranks: of each operand, without batch dimensions.
        complex_name: of the routine for complex elements, if it has another one.
    """

    name: str
    emit: Emit
    ranks: tuple[int, ...] = (_MATRIX,)
    complex_name: str = ""

    def symbol(self, letter: str) -> str:
        """The routine's name, such as ``zheevd``."""
        return letter + (self.complex_name if letter in "cz" and self.complex_name else self.name)


_REFLECTORS = (_MATRIX, _VECTOR)
_ROUTINES: tuple[LapackRoutine, ...] = (
    LapackRoutine("potrf", factors.emit_potrf),
    LapackRoutine("getrf", factors.emit_getrf),
    LapackRoutine("geqrf", factors.emit_geqrf),
    LapackRoutine("geqp3", factors.emit_geqp3, _REFLECTORS),
    LapackRoutine("orgqr", factors.emit_orgqr, _REFLECTORS, "ungqr"),
    LapackRoutine("ormqr", factors.emit_ormqr, (*_REFLECTORS, _MATRIX), "unmqr"),
    LapackRoutine("gesdd", spectra.emit_gesdd),
    LapackRoutine("gesvd", spectra.emit_gesvd),
    LapackRoutine("syevd", spectra.emit_syevd, complex_name="heevd"),
    LapackRoutine("geev", spectra.emit_geev),
    LapackRoutine("gees", spectra.emit_gees),
    LapackRoutine("gehrd", spectra.emit_gehrd),
    LapackRoutine("sytrd", spectra.emit_sytrd, complex_name="hetrd"),
    LapackRoutine("gtsv", systems.emit_gtsv, _SYSTEM),
    LapackRoutine("trsm", systems.emit_trsm, (_MATRIX, _MATRIX)),
)
TARGETS: Mapping[str, LapackRoutine] = MappingProxyType(
    {
        **{f"lapack_{r.symbol(x)}_ffi": r for r in _ROUTINES for x in LETTERS.values()},
        "Qr": LapackRoutine("geqrf", factors.emit_geqrf),
        "ProductOfElementaryHouseholderReflectors": LapackRoutine(
            "orgqr", factors.emit_orgqr, _REFLECTORS, "ungqr"
        ),
        "LuDecomposition": LapackRoutine("getrf", factors.emit_lu),
        "Eigh": LapackRoutine("syevd", spectra.emit_eigh, complex_name="heevd"),
    }
)
"""By custom-call target."""
OPCODES: Mapping[str, LapackRoutine] = MappingProxyType(
    {
        "cholesky": LapackRoutine("potrf", factors.emit_cholesky),
        "triangular-solve": LapackRoutine("trsm", systems.emit_trsm, (_MATRIX, _MATRIX)),
    }
)
"""By opcode."""


@dataclass(frozen=True, slots=True)
class LapackCall:
    """A call that LAPACK has a routine for.

    Attributes:
        routine: which.
        letter: of the element type.
        batch: how many matrices.
        options: of one.
    """

    routine: LapackRoutine
    letter: str
    batch: int
    options: Options

    @property
    def symbol(self) -> str:
        """The routine's name."""
        return self.routine.symbol(self.letter)


def lapack_call_of(i: HloInstruction) -> LapackCall | None:
    """The call of LAPACK that an instruction is; None if it is none."""
    routine = _routine_of(i)
    if routine is None or len(i.operands) != len(routine.ranks):
        return None
    shapes = (*(o.shape for o in i.operands), *flattened_shapes(i.shape))
    if not all(shape.is_array and 0 < shape.size <= MOST_INT for shape in shapes):
        return None
    rank = i.operands[0].shape.rank - routine.ranks[0]
    letter = _letter_of(i)
    if not letter or rank < 0:
        return None
    batch = prod(i.operands[0].shape.dims[:rank])
    return LapackCall(routine, letter, batch, options_of(i, rank))


def _routine_of(i: HloInstruction) -> LapackRoutine | None:
    if i.opcode != "custom-call":
        return OPCODES.get(i.opcode)
    target: str = i["custom_call_target"]
    is_built_in = known(target) is BUILT_IN.get(target)
    return TARGETS.get(target) if is_built_in else None


def _letter_of(i: HloInstruction) -> str:
    """LAPACK's letter of all inexact operands; empty if they have none, or several."""
    types = {o.shape.element_type for o in i.operands}
    inexact = {t for t in types if t.is_float or t.is_complex}
    return LETTERS.get(next(iter(inexact)), "") if len(inexact) == 1 else ""


# Kernels


def lapack_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """Bytes of workspace for one matrix; 0 for what LAPACK does not compute."""
    del tactic
    call = lapack_call_of(spec.computation.root)
    return 0 if call is None else _workspace_nbytes(call)


@lru_cache(maxsize=1024)
def _workspace_nbytes(call: LapackCall) -> int:
    """Counted by writing the code of a matrix, which nobody runs."""
    module = ModuleBuilder("workspace")
    counts = len(call.routine.ranks), len(call.options.sizes)
    names = [f"a{n}" for n in range(sum(counts))]
    b = module.function("count", VOID, [Parameter(PTR, name) for name in (*names, "workspace")])
    *arrays, workspace = b.arguments
    m = OneMatrix(b, call.letter, arrays[: counts[0]], arrays[counts[0] :], workspace)
    call.routine.emit(m, call.options)
    return max(m.used, 64)


def emit_lapack(k: KernelBuild) -> None:
    """Calls LAPACK for each matrix, on one thread of its own."""
    call = lapack_call_of(k.root)
    if call is None:
        raise AssertionError(k.root.opcode)
    operands = [k.e.arrays[operand][0] for operand in k.root.operands]
    nbytes = _workspace_nbytes(call)
    for symbol in (BEGIN, END):
        k.b.module.declare(symbol, VOID, [])

    def matrix(number: IndexValue) -> None:
        places = [_place(k, array, call.batch, number) for array in (*operands, *k.results)]
        count = len(operands)
        m = OneMatrix(k.b, call.letter, places[:count], places[count:], k.scratch)
        call.routine.emit(m, call.options)

    def part(begin: IndexValue, end: IndexValue) -> None:
        with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as number, k.e.scope():
            matrix(number)

    k.b.call_void(BEGIN)
    if call.batch == 1:
        matrix(0)
    else:
        k.split(call.batch, part, private_nbytes=nbytes)
    k.b.call_void(END)


def _place(k: KernelBuild, array: IrArray, batch: int, number: IndexValue) -> Value:
    nbytes = _nbytes(array.shape) // batch
    return k.b.byte_address(array.base, k.e.at.value(k.e.at.mul(number, nbytes)))


def _nbytes(shape: Shape) -> int:
    return shape.size * shape.element_type.host_nbytes
