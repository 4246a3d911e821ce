"""Mutants written by hand of the CPU: wrong arithmetic, indices, windows, loops, layouts."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from tests.differential.planted import entry, function
from tests.mutants.wrong import Plant, WrongBackend, everywhere, method
from xladev.codegen.elemental import computation, contraction, reduction, selection
from xladev.codegen.index import IndexMath
from xladev.codegen.llvm import FLOAT, I32, I64
from xladev.codegen.scalar import convert, elementwise, formats, integers, storage
from xladev.compiler.plan import layout
from xladev.hlo import dtype as dt
from xladev.platforms.cpu.codegen import build, loops, table, vectors
from xladev.platforms.cpu.codegen.lapack import options
from xladev.platforms.cpu.codegen.lapack.lanes import OneGroup
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.sorting import sort_microkernel as sort_microkernel
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.library import LIBRARY
from xladev.platforms.cpu.linker import _Steps

# Arithmetic


def _flushed(b: Any, args: Any) -> Any:
    product = _multiply(b, args)
    return b.select(b.fcmp("olt", b.fabs(product), 2.0**-126), 0.0, product)


def _truncated(b: Any, value: Any, dtype: Any) -> Any:
    if dtype is not dt.BF16:
        return _round_to(b, value, dtype)
    return b.bitcast(b.and_(b.bitcast(value, I32), -0x10000), FLOAT)


def _smaller(b: Any, args: Any) -> Any:
    return b.select(b.fcmp("olt", args[0], args[1]), args[0], args[1])


def _from_zero(b: Any, args: Any) -> Any:
    return b.fsub(b.const(args[0].type, 0.0), args[0])


def _coarse(b: Any, args: Any) -> Any:
    return b.fmul(_exponential(b, args), 1.0 + 2.0**-17)


def _floored_remainder(b: Any, dtype: Any, args: Any) -> Any:
    rest = _remainder(b, dtype, args)
    if not dtype.is_signed:
        return rest
    mixed = b.icmp("slt", b.xor(rest, args[1]), 0)
    wrong = b.and_(b.icmp("ne", rest, 0), mixed)
    return b.select(wrong, b.add(rest, args[1]), rest)


def _zero_on_overflow(b: Any, dtype: Any, args: Any) -> Any:
    quotient = _divide(b, dtype, args)
    if not dtype.is_signed:
        return quotient
    least = b.icmp("eq", args[0], -(1 << (dtype.bits - 1)))
    return b.select(b.and_(least, b.icmp("eq", args[1], -1)), 0, quotient)


def _shift_modulo(b: Any, dtype: Any, args: Any) -> Any:
    return b.lshr(args[0], b.and_(args[1], dtype.bits - 1))


def _wrapping(b: Any, value: Any, type_: Any, *, signed: bool) -> Any:
    """Through 64 bits, of which the low ones are taken."""
    if type_.bits >= 64:
        return _float_to_integer(b, value, type_, signed=signed)
    wide = b.intrinsic("fptosi.sat", value, result=type_.of(I64))
    return b.resize(wide, type_, signed=True)


def _saturated(b: Any, value: Any, dtype: Any) -> Any:
    if dtype.name != "f8e5m2":
        return _emit_encode(b, value, dtype)
    most = 57344.0
    limited = b.intrinsic("minimum", b.intrinsic("maximum", value, -most), most)
    return _emit_encode(b, limited, dtype)


def _by_parts(b: Any, args: Any) -> Any:
    """Complex division of real by real and imaginary by imaginary part."""
    x, y = args
    return replace(x, real=b.fdiv(x.real, y.real), imag=b.fdiv(x.imag, y.imag))


_multiply = elementwise.FLOAT_EMITTERS["multiply"]
_exponential = elementwise.FLOAT_EMITTERS["exponential"]
_remainder = integers.INTEGER_EMITTERS["remainder"]
_divide = integers.INTEGER_EMITTERS["divide"]
_round_to, _emit_encode = storage.round_to, formats.emit_encode
_float_to_integer = convert.float_to_integer


# Indices, windows, sums


def _unclamped(self: IndexMath, x: Any, low: int, high: int) -> Any:
    return min(max(x, low), high) if isinstance(x, int) else x


def _window(change: Any) -> Plant:
    """Windows as another rule sees them."""
    right = reduction.window_position

    def wrong(e: Any, window: Any, output: Any, inner: Any) -> Any:
        return right(e, [change(w) for w in window], output, inner)

    return function(reduction, "window_position", wrong)


def _not_dilated(e: Any, window: Any, dims: Any, output: Any, inner: Any) -> Any:
    return _base_index(e, [replace(w, base_dilation=1) for w in window], dims, output, inner)


def _twice_initial(e: Any, i: Any, index: Any) -> Any:
    found = _reduce_elements(e, i, index)
    inits = tuple(e.element(init, ()) for init in i.operands[len(i.operands) // 2 :])
    return reduction.accumulation(e, i)(found, inits)


def _first_batch_group(e: Any, i: Any, d: Any, out_feature: Any) -> Any:
    return _group_bases(e, i, d, out_feature)[0], 0


def _swapped_batch(rank: int, *groups: Any) -> Any:
    """Two leading dimensions of an operand of rank 4 or more are read in each other's place."""
    changed = []
    for dims, at in groups:
        swap = rank >= 4 and len(dims) == 2 and dims == (0, 1)
        changed.append((dims, (at[1], at[0]) if swap else at))
    return _gathered(rank, *changed)


def _replaced_not_combined(e: Any, called: Any, args: Any) -> Any:
    """Scatter's computation gives the update, whatever was there."""
    if called.root.shape.element_type is dt.PRED and len(args) == 2:
        return _emit_computation(e, called, args)
    return args[len(args) // 2 :]


def _compared_backwards(e: Any, called: Any, args: Any) -> Any:
    if called.root.opcode != "compare":
        return _emit_computation(e, called, args)
    return _emit_computation(e, called, tuple(reversed(args)))


def _descending(sorter: Any, rows: Any, first: Any, second: Any) -> Any:
    return _precedes(sorter, rows, second, first)


def _descending_sorts(patch: pytest.MonkeyPatch) -> None:
    """Sorts are microkernels, which are kept: those with the bug in a table of their own."""
    patch.setattr(sort_microkernel._Sorter, "_precedes", _descending)
    patch.setattr(LIBRARY, "_compiled", {})


def _in_bf16(e: Any, dtype: Any, total: Any, left: Any, right: Any) -> Any:
    after: Any = _multiply_add(e, dtype, total, left, right)
    return _round_to(e.b, after, dt.BF16) if dtype is dt.F32 else after


_base_index, _reduce_elements = reduction.base_index, reduction.reduce_elements
_group_bases, _gathered = contraction._group_bases, contraction._gathered
_emit_computation = computation.emit_computation
_precedes = sort_microkernel._Sorter._precedes
_multiply_add = contraction.multiply_add
_in_vectors_and_rest = vectors.in_vectors_and_rest


# Memory and order


def _same_type(bitcast: Any) -> bool:
    return bool(bitcast.operands[0].shape.element_type is bitcast.shape.element_type)


def _one_more(right: Any, self: Any, array: Any, body: Any) -> Any:
    """The loops of a rank-1 result run one element past its end."""
    dims = array.shape.dims
    if len(dims) != 1 or dims[0] < 2:
        return right(self, array, body)
    return self.nest([dims[0] + 1], body)


def _rest_left_out(e: Any, start: int, stop: int, whole: Any, rest: Any) -> None:
    """Elements that do not fill a vector are left out, if any do."""
    lanes = e.lanes
    end = stop if stop - start < lanes else start + (stop - start) // lanes * lanes
    _in_vectors_and_rest(e, start, end, whole, rest)


def _body_first(right: Any, self: Any, step: Any) -> None:
    self.emit(step.body)
    right(self, step)


def _first_when_outside(right: Any, self: Any, step: Any) -> None:
    """A conditional with an index out of range takes the first branch, not the last."""
    if step.is_predicate:
        return right(self, step)
    index = self.b.load(I32, self._pointer(step.selector))
    inside = self.b.icmp("ult", index, len(step.branches))
    index = self.b.resize(self.b.select(inside, index, 0), I64, signed=True)
    return self.b.switch(index, [lambda s=s: self.emit(s) for s in step.branches])


def _without_copies(right: Any, self: Any, plan: Any, signature: Any, options: Any) -> Any:
    """Copies between steps are taken for no-ops."""
    from xladev.compiler.plan.kernel_plan import Copy

    steps = tuple(s for s in plan.steps if not isinstance(s, Copy))
    return right(self, replace(plan, steps=steps), signature, options)


def _results_exchanged(k: Any) -> None:
    """A kernel of several results stores the first two of one shape in each other's place."""
    results = list(k.results)
    if len(results) > 1 and results[0].shape == results[1].shape:
        results[:2] = results[1], results[0]
    loops.emit_results(replace(k, results=tuple(results)))


def _float(opcode: str, wrong: Any) -> Plant:
    return entry(elementwise, "FLOAT_EMITTERS", opcode, wrong)


def _integer(opcode: str, wrong: Any) -> Plant:
    return entry(elementwise, "INTEGER_EMITTERS", opcode, wrong)


def _kernel(opcode: str, wrong: Any) -> Plant:
    kernels = MappingProxyType({**table.KERNEL_EMITTERS, opcode: wrong})
    return lambda patch: patch.setattr(table, "KERNEL_EMITTERS", kernels)


# LAPACK


def _as_it_is(m: Any, destination: Any, source: Any, rows: int, columns: int) -> None:
    m.copy(destination, source, rows * columns)


def _other_stride(right: Any, m: Any, routine: str, *arguments: Any) -> None:
    """One element less than there is between columns of a triangle."""
    if routine == "trsm":
        *before, leading, x, stride = arguments
        arguments = (*before, max(leading - 1, 1), x, stride)
    right(m, routine, *arguments)


def _without_info(right: Any, m: Any, routine: str, *arguments: Any) -> None:
    right(m, routine, *arguments[:-1], m.integers(1) if routine == "potrf" else arguments[-1])


def _without_exchange(g: Any, source: Any, size: int, nbytes: int = 0) -> Any:
    """Matrices one after the other, where their elements should be side by side."""
    lines = g.lines(size)
    g.b.copy_bytes(lines, source, size * g.lanes * (nbytes or g.nbytes))
    return lines


def _same_room(m: Any, nbytes: int) -> Any:
    m.used = max(m.used, -(-nbytes // 64) * 64)
    return m._workspace


def _cpu(name: str, plant: Plant, *opcodes: str) -> WrongBackend:
    return WrongBackend(name, "cpu", plant, opcodes)


MUTANTS = (
    _cpu("denormal products are flushed to zero", _float("multiply", _flushed), "multiply"),
    _cpu("bf16 is truncated, not rounded", everywhere(_round_to, _truncated), "add", "convert"),
    _cpu("minimum loses a NaN", _float("minimum", _smaller), "minimum"),
    _cpu("negate loses the sign of zero", _float("negate", _from_zero), "negate"),
    _cpu("exponential is good to 17 bits", _float("exponential", _coarse), "exponential"),
    _cpu("integer remainder takes the divisor's sign", _integer("remainder", _floored_remainder),
         "remainder"),
    _cpu("the least integer divided by -1 is 0", _integer("divide", _zero_on_overflow), "divide"),
    _cpu("shift-right takes its amount modulo the width",
         _integer("shift-right-logical", _shift_modulo), "shift-right-logical"),
    _cpu("conversion to integers wraps", everywhere(_float_to_integer, _wrapping), "convert"),
    _cpu("f8e5m2 saturates where it overflows", everywhere(_emit_encode, _saturated), "convert"),
    _cpu("complex division goes part by part",
         entry(elementwise, "COMPLEX_EMITTERS", "divide", _by_parts), "divide"),
    _cpu("indices out of bounds are not clamped", function(IndexMath, "clamp", _unclamped),
         "dynamic-slice", "gather"),
    _cpu("padding of windows is off by one",
         _window(lambda w: replace(w, pad_low=w.pad_low + bool(w.pad_low))),
         "reduce-window", "convolution"),
    _cpu("reversal of windows is ignored", _window(lambda w: replace(w, reversal=False)),
         "convolution"),
    _cpu("strides of windows are ignored", _window(lambda w: replace(w, stride=1)),
         "reduce-window", "convolution"),
    _cpu("base dilation is ignored", everywhere(_base_index, _not_dilated),
         "reduce-window", "convolution"),
    _cpu("reduce counts its initial value twice", everywhere(_reduce_elements, _twice_initial),
         "reduce"),
    _cpu("batch groups of a convolution are ignored",
         function(contraction, "_group_bases", _first_batch_group), "convolution"),
    _cpu("batch dimensions of a dot change places", function(contraction, "_gathered",
         _swapped_batch), "dot"),
    _cpu("products of bf16 are summed in bf16", everywhere(_multiply_add, _in_bf16), "dot"),
    _cpu("scatter replaces instead of combining",
         everywhere(_emit_computation, _replaced_not_combined), "scatter"),
    _cpu("select-and-scatter selects the other way round",
         function(selection, "emit_computation", _compared_backwards), "select-and-scatter"),
    _cpu("sort runs its comparator backwards", _descending_sorts, "sort"),
    _cpu("a bitcast between layouts is taken for a reshape",
         function(layout, "_is_reshape", _same_type), "bitcast"),
    WrongBackend("a kernel writes one element past its result", "cpu",
                 method(build.KernelBuild, "nest_in_layout", _one_more),
                 cases=("executables::a-launch-writes-*",)),
    _cpu("a kernel leaves out what its vectors leave over",
         everywhere(_in_vectors_and_rest, _rest_left_out), "add"),
    _cpu("a loop runs its body before it asks", method(_Steps, "_loop", _body_first), "while"),
    _cpu("a branch out of range is the first one", method(_Steps, "_branch", _first_when_outside),
         "conditional"),
    _cpu("copies between kernels are dropped", method(CpuCompiler, "link", _without_copies),
         "copy", "while", "tuple"),
    _cpu("two results of one kernel change places", _kernel("tuple", _results_exchanged),
         "fusion", "tuple", "fusion_variants"),
    _cpu("LAPACK is given row-major matrices", function(OneMatrix, "transpose", _as_it_is),
         "custom-call"),
    _cpu("triangular systems of LAPACK have another stride",
         method(OneMatrix, "call", _other_stride), "triangular-solve"),
    _cpu("adjoints of triangular systems lose their conjugates",
         entry(options, "_TRANS", "ADJOINT", "T"), "triangular-solve"),
    WrongBackend("info of LAPACK is lost", "cpu", method(OneMatrix, "call", _without_info),
                 cases=("lapack::*-potrf-fails-*",)),
    _cpu("workspaces of LAPACK overlap", function(OneMatrix, "room", _same_room), "custom-call"),
    _cpu("matrices in lanes stay as they are", function(OneGroup, "gathered", _without_exchange),
         "custom-call"),
)  # fmt: skip
