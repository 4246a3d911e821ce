"""Factorisations as calls of cuSOLVER's functions, by the names and arguments that CuPy gives them.

Both drivers run these steps: on a GPU with `cupy_backends.cuda.libs.cusolver`, and without one with
`driver.emulated_cusolver`, which checks every argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xladev.platforms.cuda.libraries.solver_calls import (
    INFO_NBYTES,
    ITEM_NBYTES,
    REAL_NBYTES,
    Eigenvectors,
    LuFactorsCall,
    QMatrix,
    QProduct,
    QrFactors,
    SingularValues,
    SolverCall,
)

_LETTERS: Mapping[str, str] = MappingProxyType({"f32": "s", "f64": "d", "c64": "c", "c128": "z"})
_COMPLEX_NAMES: Mapping[str, str] = MappingProxyType(
    {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "syevjBatched": "heevjBatched"}
)
_S32 = 4


@dataclass(frozen=True, slots=True)
class Solver:
    """cuSOLVER on one stream.

    Attributes:
        functions: the module.
        handle: of the library, set to the stream.
        copy: enqueues a copy: target, source, bytes.
        room: the address of a workspace: the given one, or a larger one if its size (second) is
            less than what is wanted (third).
    """

    functions: Any
    handle: int
    copy: Callable[[int, int, int], None]
    room: Callable[[int, int, int], int]

    def of(self, name: str, dtype: str) -> tuple[Callable[..., Any], Callable[..., int]]:
        """A routine of a type, and what says how many elements of workspace it wants."""
        letter = _LETTERS[dtype]
        spelled = _COMPLEX_NAMES.get(name, name) if letter in "cz" else name
        size = f"{letter}{spelled}_bufferSize"
        return getattr(self.functions, f"{letter}{spelled}"), getattr(self.functions, size)

    def work(self, call: SolverCall, workspace: int, length: int) -> int:
        """Where the library may work on ``length`` elements."""
        held = call.held_nbytes
        there = call.workspace_nbytes - held
        return self.room(workspace + held, there, length * ITEM_NBYTES[call.dtype])


def _lu(solver: Solver, call: LuFactorsCall, addresses: Sequence[int]) -> None:
    source, target, pivots, info, workspace = addresses
    run, size = solver.of("getrf", call.dtype)
    m, n, handle = call.rows, call.columns, solver.handle
    each = m * n * ITEM_NBYTES[call.dtype]
    solver.copy(target, source, call.batch * each)
    work = solver.work(call, workspace, size(handle, m, n, target, m))
    for k in range(call.batch):
        chosen = pivots + k * call.pivots * _S32
        run(handle, m, n, target + k * each, m, work, chosen, info + k * _S32)


def _qr(solver: Solver, call: QrFactors, addresses: Sequence[int]) -> None:
    source, target, scales, info = addresses
    run, size = solver.of("geqrf", call.dtype)
    m, n, handle = call.rows, call.columns, solver.handle
    item = ITEM_NBYTES[call.dtype]
    solver.copy(target, source, call.batch * m * n * item)
    length = size(handle, m, n, target, m)
    work = solver.work(call, info, length)
    for k in range(call.batch):
        tau = scales + k * call.reflectors * item
        run(handle, m, n, target + k * m * n * item, m, tau, work, length, info)


def _q(solver: Solver, call: QMatrix, addresses: Sequence[int]) -> None:
    source, scales, target, info = addresses
    run, size = solver.of("orgqr", call.dtype)
    m, n, count, handle = call.rows, call.columns, call.reflectors, solver.handle
    item = ITEM_NBYTES[call.dtype]
    solver.copy(target, source, call.batch * m * n * item)
    length = size(handle, m, n, count, target, m, scales)
    work = solver.work(call, info, length)
    for k in range(call.batch):
        tau = scales + k * count * item
        run(handle, m, n, count, target + k * m * n * item, m, tau, work, length, info)


def _product(solver: Solver, call: QProduct, addresses: Sequence[int]) -> None:
    packed, scales, source, target, info = addresses
    run, size = solver.of("ormqr", call.dtype)
    m, n, count, handle = call.rows, call.columns, call.reflectors, solver.handle
    item, order = ITEM_NBYTES[call.dtype], call.order
    solver.copy(target, source, call.batch * m * n * item)
    turn = (2 if call.dtype in ("c64", "c128") else 1) if call.adjoint else 0
    how = (handle, int(not call.left), turn, m, n, count)
    length = size(*how, packed, order, scales, target, m)
    work = solver.work(call, info, length)
    for k in range(call.batch):
        a, tau = packed + k * order * call.packed_columns * item, scales + k * count * item
        run(*how, a, order, tau, target + k * m * n * item, m, work, length, info)


_VECTORS = 1


def _eigen(solver: Solver, call: Eigenvectors, addresses: Sequence[int]) -> None:
    source, target, values, info, workspace = addresses
    n, handle = call.order, solver.handle
    each = n * n * ITEM_NBYTES[call.dtype]
    solver.copy(target, source, call.batch * each)
    if call.method == "syevjBatched":
        _jacobi_eigen(solver, call, addresses)
        return
    run, size = solver.of("syevd", call.dtype)
    length = size(handle, _VECTORS, int(call.upper), n, target, n, values)
    work = solver.work(call, workspace, length)
    for k in range(call.batch):
        run(
            handle, _VECTORS, int(call.upper), n, target + k * each, n,
            values + k * n * REAL_NBYTES[call.dtype], work, length, info + k * _S32,
        )  # fmt: skip


def _jacobi_eigen(solver: Solver, call: Eigenvectors, addresses: Sequence[int]) -> None:
    _, target, values, info, workspace = addresses
    run, size = solver.of("syevjBatched", call.dtype)
    options = solver.functions.createSyevjInfo()
    try:
        n = call.order
        given = (solver.handle, _VECTORS, int(call.upper), n, target, n, values)
        length = size(*given, options, call.batch)
        work = solver.work(call, workspace, length)
        run(*given, work, length, info, options, call.batch)
    finally:
        solver.functions.destroySyevjInfo(options)


def _svd(solver: Solver, call: SingularValues, addresses: Sequence[int]) -> None:
    if call.method == "gesvd":
        _qr_steps(solver, call, addresses)
        return
    options = solver.functions.createGesvdjInfo()
    try:
        run = _jacobi_batch if call.method == "gesvdjBatched" else _jacobi_each
        run(solver, call, addresses, options)
    finally:
        solver.functions.destroyGesvdjInfo(options)


def _each(
    solver: Solver, call: SingularValues, addresses: Sequence[int]
) -> Iterator[tuple[int, int, int, int, int]]:
    """A copy of each matrix, enqueued, and where its results go."""
    source, s, u, v, info, workspace = addresses
    m, n, item = call.rows, call.columns, ITEM_NBYTES[call.dtype]
    a = workspace + INFO_NBYTES
    for k in range(call.batch):
        solver.copy(a, source + k * m * n * item, m * n * item)
        yield (
            a,
            s + k * call.values * REAL_NBYTES[call.dtype],
            u + k * m * call.left * item,
            v + k * n * call.right * item,
            info + k * _S32,
        )


def _qr_steps(solver: Solver, call: SingularValues, addresses: Sequence[int]) -> None:
    run, size = solver.of("gesvd", call.dtype)
    m, n, handle = call.rows, call.columns, solver.handle
    length = size(handle, m, n)
    work = solver.work(call, addresses[-1], length)
    job = ord(("A" if call.full else "S") if call.vectors else "N")
    no_superdiagonal = 0
    for a, s, u, vt, info in _each(solver, call, addresses):
        run(
            handle, job, job, m, n, a, m, s, u, m, vt, n,
            work, length, no_superdiagonal, info,
        )  # fmt: skip


def _jacobi_each(
    solver: Solver, call: SingularValues, addresses: Sequence[int], options: int
) -> None:
    _, s, u, v, _, workspace = addresses
    run, size = solver.of("gesvdj", call.dtype)
    m, n = call.rows, call.columns
    how = (solver.handle, int(call.vectors), int(not call.full), m, n)
    length = size(*how, workspace + INFO_NBYTES, m, s, u, m, v, n, options)
    work = solver.work(call, workspace, length)
    for a, s, u, v, info in _each(solver, call, addresses):
        run(*how, a, m, s, u, m, v, n, work, length, info, options)


def _jacobi_batch(
    solver: Solver, call: SingularValues, addresses: Sequence[int], options: int
) -> None:
    source, s, u, v, info, workspace = addresses
    run, size = solver.of("gesvdjBatched", call.dtype)
    m, n, a = call.rows, call.columns, workspace + INFO_NBYTES
    solver.copy(a, source, call.batch * m * n * ITEM_NBYTES[call.dtype])
    given = (solver.handle, int(call.vectors), m, n, a, m, s, u, m, v, n)
    length = size(*given, options, call.batch)
    work = solver.work(call, workspace, length)
    run(*given, work, length, info, options, call.batch)


_STEPS: Mapping[type[SolverCall], Callable[[Solver, Any, Sequence[int]], None]] = MappingProxyType(
    {
        LuFactorsCall: _lu,
        QrFactors: _qr,
        QMatrix: _q,
        QProduct: _product,
        Eigenvectors: _eigen,
        SingularValues: _svd,
    }
)


def enqueue_steps(solver: Solver, call: SolverCall, addresses: Sequence[int]) -> None:
    """Enqueues what computes a call on its buffers' addresses."""
    _STEPS[type(call)](solver, call, addresses)
