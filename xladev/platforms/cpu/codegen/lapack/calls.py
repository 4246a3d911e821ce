"""Which custom calls and opcodes are LAPACK's routines, and how each is computed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.registry import BUILT_IN, known
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.platforms.cpu.codegen.lapack import factors, lanes_factors, spectra, systems
from xladev.platforms.cpu.codegen.lapack.lanes import LANES, OneGroup
from xladev.platforms.cpu.codegen.lapack.lanes_eigen import emit_eigh_lanes, emit_syevd_lanes
from xladev.platforms.cpu.codegen.lapack.lanes_singular import emit_gesdd_lanes, is_thin
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.lapack.options import Options, options_of

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
class SmallKernel:
    """How groups of small matrices are computed, each in a lane: see `lanes.py`.

    Attributes:
        emit: code of a group.
        most: rows, columns and sides up to which that is faster than LAPACK, by measurement.
        takes: what of it.
    """

    emit: EmitLanes
    most: int
    takes: Callable[[Options], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class LapackRoutine:
    """What LAPACK computes of a stack.

    Attributes:
        name: of the routine for real elements.
        emit: code of one matrix.
        results: how many arrays it gives, most of them.
        flops: of a matrix, about, as a multiple of rows times columns times the smaller of both.
        ranks: of each operand, without batch dimensions.
        complex_name: of the routine for complex elements, if it has another one.
        small: how small matrices are computed, if not by LAPACK.
    """

    name: str
    emit: Emit
    results: int
    flops: float
    ranks: tuple[int, ...] = (_MATRIX,)
    complex_name: str = ""
    small: SmallKernel | None = None

    def symbol(self, letter: str) -> str:
        """The routine's name, such as ``zheevd``."""
        return letter + (self.complex_name if letter in "cz" and self.complex_name else self.name)


_REFLECTORS = (_MATRIX, _VECTOR)
_POTRF = LapackRoutine("potrf", factors.emit_potrf, 2, 0.33, small=SmallKernel(
    lanes_factors.emit_potrf_lanes, 64))  # fmt: skip
_GETRF = LapackRoutine("getrf", factors.emit_getrf, 3, 0.67, small=SmallKernel(
    lanes_factors.emit_getrf_lanes, 32))  # fmt: skip
_GEQRF = LapackRoutine("geqrf", factors.emit_geqrf, 2, 1.33, small=SmallKernel(
    lanes_factors.emit_geqrf_lanes, 32))  # fmt: skip
_ORGQR = LapackRoutine("orgqr", factors.emit_orgqr, 1, 1.33, _REFLECTORS, "ungqr", SmallKernel(
    lanes_factors.emit_orgqr_lanes, 32))  # fmt: skip
_SYEVD = LapackRoutine("syevd", spectra.emit_syevd, 3, 9.0, complex_name="heevd", small=SmallKernel(
    emit_syevd_lanes, 16))  # fmt: skip
_TRSM = LapackRoutine("trsm", systems.emit_trsm, 1, 1.0, (_MATRIX, _MATRIX), small=SmallKernel(
    lanes_factors.emit_trsm_lanes, 32))  # fmt: skip
_SINGULAR = SmallKernel(emit_gesdd_lanes, 16, is_thin)
_ROUTINES: tuple[LapackRoutine, ...] = (
    _POTRF, _GETRF, _GEQRF, _ORGQR, _SYEVD, _TRSM,
    LapackRoutine("geqp3", factors.emit_geqp3, 3, 2.0, _REFLECTORS),
    LapackRoutine("ormqr", factors.emit_ormqr, 1, 4.0, (*_REFLECTORS, _MATRIX), "unmqr"),
    LapackRoutine("gesdd", spectra.emit_gesdd, 5, 20.0, small=_SINGULAR),
    LapackRoutine("gesvd", spectra.emit_gesvd, 5, 30.0, small=_SINGULAR),
    LapackRoutine("geev", spectra.emit_geev, 5, 25.0),
    LapackRoutine("gees", spectra.emit_gees, 6, 25.0),
    LapackRoutine("gehrd", spectra.emit_gehrd, 3, 3.33),
    LapackRoutine("sytrd", spectra.emit_sytrd, 5, 1.33, complex_name="hetrd"),
    LapackRoutine("gtsv", systems.emit_gtsv, 5, 20.0, _SYSTEM),
)  # fmt: skip
TARGETS: Mapping[str, LapackRoutine] = MappingProxyType(
    {
        **{f"lapack_{r.symbol(x)}_ffi": r for r in _ROUTINES for x in LETTERS.values()},
        "Qr": _GEQRF,
        "ProductOfElementaryHouseholderReflectors": _ORGQR,
        "LuDecomposition": replace(_GETRF, emit=factors.emit_lu, small=None),
        "Eigh": replace(
            _SYEVD, emit=spectra.emit_eigh, results=2, small=SmallKernel(emit_eigh_lanes, 16)
        ),
    }
)
"""By custom-call target."""
OPCODES: Mapping[str, LapackRoutine] = MappingProxyType(
    {
        "cholesky": replace(
            _POTRF,
            emit=factors.emit_cholesky,
            results=1,
            small=SmallKernel(lanes_factors.emit_cholesky_lanes, 64),
        ),
        "triangular-solve": _TRSM,
    }
)
"""By opcode."""
LAPACK_OPCODES = frozenset({"custom-call", *OPCODES})


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
        o, lanes, small = self.options, LANES.get(self.letter, 0), self.routine.small
        if small is None or not lanes or self.batch < lanes:
            return 1
        is_small = max(o.rows, o.columns, *o.sides) <= small.most
        return lanes if is_small and small.takes(o) else 1


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


LAPACK_FLOPS_PER_NS = 8.0
LANES_FLOPS_PER_NS = 10.0
CALL_NS = 1500.0
"""What a call of LAPACK takes beside its work."""


def lapack_ns(i: HloInstruction) -> float | None:
    """Nanoseconds that a call takes in one thread, about; None for what is none."""
    call = lapack_call_of(i)
    if call is None:
        return None
    o = call.options
    flops = call.routine.flops * o.rows * o.columns * min(o.rows, o.columns)
    if call.routine.name in ("trsm", "gtsv"):
        flops = call.routine.flops * o.columns * o.sides[0] * o.sides[1]
    if call.lanes > 1:
        return call.batch * flops / LANES_FLOPS_PER_NS
    return call.batch * (CALL_NS + flops / LAPACK_FLOPS_PER_NS)
