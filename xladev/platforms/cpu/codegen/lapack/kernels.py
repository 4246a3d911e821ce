"""Which custom calls and opcodes LAPACK computes, and the kernel of one: matrix after matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import PTR, VOID, FunctionBuilder, ModuleBuilder, Parameter, Value
from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.registry import BUILT_IN, known
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.lapack import factors, lanes_factors, spectra, systems
from xladev.platforms.cpu.codegen.lapack.lanes import LANES, OneGroup
from xladev.platforms.cpu.codegen.lapack.lanes_eigen import emit_eigh_lanes, emit_syevd_lanes
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.lapack.options import Options, options_of
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.lapack.routines import BEGIN, END

Emit = Callable[[OneMatrix, Options], None]
EmitLanes = Callable[[OneGroup, Options], None]
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
        lanes: code of a group of small matrices, each in one lane; None if there is none.
        most: rows, columns or sides up to which that is faster: see `lanes.py`.
    """

    name: str
    emit: Emit
    ranks: tuple[int, ...] = (_MATRIX,)
    complex_name: str = ""
    lanes: EmitLanes | None = None
    most: int = 0

    def symbol(self, letter: str) -> str:
        """The routine's name, such as ``zheevd``."""
        return letter + (self.complex_name if letter in "cz" and self.complex_name else self.name)


_REFLECTORS = (_MATRIX, _VECTOR)
_ROUTINES: tuple[LapackRoutine, ...] = (
    LapackRoutine("potrf", factors.emit_potrf, lanes=lanes_factors.emit_potrf_lanes, most=64),
    LapackRoutine("getrf", factors.emit_getrf, lanes=lanes_factors.emit_getrf_lanes, most=32),
    LapackRoutine("geqrf", factors.emit_geqrf, lanes=lanes_factors.emit_geqrf_lanes, most=32),
    LapackRoutine("geqp3", factors.emit_geqp3, _REFLECTORS),
    LapackRoutine(
        "orgqr", factors.emit_orgqr, _REFLECTORS, "ungqr", lanes_factors.emit_orgqr_lanes, 32
    ),
    LapackRoutine("ormqr", factors.emit_ormqr, (*_REFLECTORS, _MATRIX), "unmqr"),
    LapackRoutine("gesdd", spectra.emit_gesdd),
    LapackRoutine("gesvd", spectra.emit_gesvd),
    LapackRoutine(
        "syevd", spectra.emit_syevd, complex_name="heevd", lanes=emit_syevd_lanes, most=16
    ),
    LapackRoutine("geev", spectra.emit_geev),
    LapackRoutine("gees", spectra.emit_gees),
    LapackRoutine("gehrd", spectra.emit_gehrd),
    LapackRoutine("sytrd", spectra.emit_sytrd, complex_name="hetrd"),
    LapackRoutine("gtsv", systems.emit_gtsv, _SYSTEM),
    LapackRoutine(
        "trsm", systems.emit_trsm, (_MATRIX, _MATRIX), lanes=lanes_factors.emit_trsm_lanes, most=32
    ),
)
TARGETS: Mapping[str, LapackRoutine] = MappingProxyType(
    {
        **{f"lapack_{r.symbol(x)}_ffi": r for r in _ROUTINES for x in LETTERS.values()},
        "Qr": next(r for r in _ROUTINES if r.name == "geqrf"),
        "ProductOfElementaryHouseholderReflectors": next(r for r in _ROUTINES if r.name == "orgqr"),
        "LuDecomposition": LapackRoutine("getrf", factors.emit_lu),
        "Eigh": LapackRoutine(
            "syevd", spectra.emit_eigh, complex_name="heevd", lanes=emit_eigh_lanes, most=16
        ),
    }
)
"""By custom-call target."""
OPCODES: Mapping[str, LapackRoutine] = MappingProxyType(
    {
        "cholesky": LapackRoutine(
            "potrf", factors.emit_cholesky, lanes=lanes_factors.emit_cholesky_lanes, most=64
        ),
        "triangular-solve": next(r for r in _ROUTINES if r.name == "trsm"),
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

    @property
    def lanes(self) -> int:
        """How many matrices are computed at once, in vectors; 1 where LAPACK is called."""
        o, lanes = self.options, LANES.get(self.letter, 0)
        is_small = max(o.rows, o.columns, *o.sides) <= self.routine.most
        return lanes if lanes and is_small and self.batch >= lanes else 1


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
    """Counted by writing the code of a matrix, or a group, which nobody runs."""
    module = ModuleBuilder("workspace")
    count = len(call.routine.ranks) + len(call.options.sizes)
    names = [*(f"a{n}" for n in range(count)), "workspace"]
    b = module.function("count", VOID, [Parameter(PTR, name) for name in names])
    *arrays, workspace = b.arguments
    return max(_emit(b, call, arrays, workspace), 64)


def _emit(b: FunctionBuilder, call: LapackCall, arrays: Sequence[Value], workspace: Value) -> int:
    """Code of a matrix or a group whose arrays are at these addresses; bytes of workspace."""
    count = len(call.routine.ranks)
    operands, results = arrays[:count], arrays[count:]
    if call.lanes > 1 and call.routine.lanes is not None:
        g = OneGroup(b, call.letter, operands, results, workspace)
        call.routine.lanes(g, call.options)
        return g.used
    m = OneMatrix(b, call.letter, operands, results, workspace)
    call.routine.emit(m, call.options)
    return m.used


def emit_lapack(k: KernelBuild) -> None:
    """Calls LAPACK for each matrix, on one thread of its own; or works on groups of matrices.

    The last group overlaps the one before where matrices are left over.
    """
    call = lapack_call_of(k.root)
    if call is None:
        raise AssertionError(k.root.opcode)
    groups = -(-call.batch // call.lanes)
    with _on_one_thread(k.b) if call.lanes == 1 else nullcontext():
        if groups == 1:
            _emit_group(k, call, 0)
        else:
            private = _workspace_nbytes(call)
            k.split(groups, lambda begin, end: _part(k, call, begin, end), private_nbytes=private)


@contextmanager
def _on_one_thread(b: FunctionBuilder) -> Iterator[None]:
    for symbol in (BEGIN, END):
        b.module.declare(symbol, VOID, [])
    b.call_void(BEGIN)
    yield
    b.call_void(END)


def _part(k: KernelBuild, call: LapackCall, begin: IndexValue, end: IndexValue) -> None:
    with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as number, k.e.scope():
        first: Value = k.b.mul(number, call.lanes) if call.lanes > 1 else number
        if call.batch % call.lanes:
            first = k.b.intrinsic("smin", first, call.batch - call.lanes)
        _emit_group(k, call, first)


def _emit_group(k: KernelBuild, call: LapackCall, first: IndexValue) -> None:
    """The matrix, or the group of them, that begins with number ``first``."""
    operands = [k.e.arrays[operand][0] for operand in k.root.operands]
    places = [_place(k, array, call.batch, first) for array in (*operands, *k.results)]
    _emit(k.b, call, places, k.scratch)


def _place(k: KernelBuild, array: IrArray, batch: int, number: IndexValue) -> Value:
    nbytes = array.shape.nbytes // batch
    return k.b.byte_address(array.base, k.e.at.value(k.e.at.mul(number, nbytes)))
