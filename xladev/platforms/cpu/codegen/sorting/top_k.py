"""topk of each row: a microkernel finds the first elements as it reads the row."""

from __future__ import annotations

from xladev.codegen.arrays import IrArray
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import Value
from xladev.errors import CompileError
from xladev.hlo.dtype import BF16, F16, F32, S8, S16, S32, U8, U16, U32
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.sorting.top_k_microkernel import TopK, top_k_nbytes
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

MOST_K = 512
"""More are found sooner by sorting: ranks of all are compared with each other."""
MOST_SIZE = 2**31 - 1
"""Positions are counted in 32 bits."""
_DTYPES = frozenset({F32, F16, BF16, S8, S16, S32, U8, U16, U32})
_ALIGNMENT = 64


def has_top_k(i: HloInstruction) -> bool:
    """True if the kernel computes a topk."""
    (x,) = i.operands
    if not x.shape.rank or x.shape.element_type not in _DTYPES:
        return False
    return 0 < i["k"] <= MOST_K and x.shape.dims[-1] <= MOST_SIZE


def top_k_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """The microkernel's memory, and a row if it is computed."""
    del tactic
    root = spec.computation.root
    return _row_nbytes(root) + top_k_nbytes(root["k"])


def _row_shape(root: HloInstruction) -> Shape:
    (x,) = root.operands
    return array(x.shape.element_type, x.shape.dims[-1:])


def _row_nbytes(root: HloInstruction) -> int:
    if root.operands[0].opcode == "parameter":
        return 0
    return -(-_row_shape(root).nbytes // _ALIGNMENT) * _ALIGNMENT


def emit_top_k(k: KernelBuild) -> None:
    """The first elements of all rows."""
    if k.workspace is None:
        raise CompileError("a topk kernel has no workspace", where=k.spec.name)
    workspace, (x,) = k.workspace, k.root.operands
    wanted = k.root["k"]
    values, positions = k.results

    def row(outer: Index) -> None:
        outer = outer[:-1]
        memory = k.b.byte_address(workspace, _row_nbytes(k.root))
        TopK(x.shape.element_type, k.root["largest"]).call(
            k.b,
            _row(k, workspace, outer),
            (_line(k, values, outer), _line(k, positions, outer)),
            (x.shape.dims[-1], wanted),
            memory,
        )

    nbytes = top_k_workspace_nbytes(k.spec)
    k.split_nest([*x.shape.dims[:-1], 1], row, private_nbytes=nbytes)


def _row(k: KernelBuild, workspace: Value, outer: Index) -> Value:
    """Address of a row, which is written first if it is not in memory."""
    (x,) = k.root.operands
    if x.opcode == "parameter":
        return _line(k, k.e.arrays[x][0], outer)
    row = IrArray(workspace, _row_shape(k.root))
    with k.b.loop(0, x.shape.dims[-1]) as at, k.e.scope():
        row.store(k.b, (at,), k.e.element(x, (*outer, at)))
    return workspace


def _line(k: KernelBuild, held: IrArray, outer: Index) -> Value:
    """Address of the first element of a row."""
    offset = held.offset(k.b, (*outer, 0))
    nbytes = held.shape.element_type.host_nbytes
    return k.b.byte_address(held.base, k.e.at.value(k.e.at.mul(offset, nbytes)))
