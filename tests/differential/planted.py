"""Bugs for the CPU's emitters, each planted by replacing one function or one table entry.

They are mistakes that such code is prone to; the differential test must find each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest

from xladev.codegen.elemental import contraction, indexing, reduction
from xladev.codegen.elemental.emitter import ElementRule
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.index import IndexMath
from xladev.codegen.scalar import convert, elementwise, formats, integers
from xladev.compiler.buffers import buffer_assignment, in_place
from xladev.hlo import dtype as dt
from xladev.platforms.cpu.codegen import build, updates
from xladev.platforms.cpu.codegen.products import planar
from xladev.platforms.cpu.codegen.sorting import sort_microkernel
from xladev.platforms.cpu.library import LIBRARY

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class PlantedBug:
    """One bug.

    Attributes:
        name: what is wrong.
        opcodes: what to draw so as to meet it soon.
        plant: puts it in place.
        steps: opcodes per program.
    """

    name: str
    opcodes: tuple[str, ...]
    plant: Plant
    steps: int = 1


def rule(opcode: str, wrong: Callable[..., Any]) -> Plant:
    """An elemental rule replaced; ``wrong`` is given the right one first."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = ELEMENT_RULES[opcode]

        def changed(e: Any, i: Any, index: Any) -> Any:
            return wrong(right, e, i, index)

        rules = MappingProxyType({**ELEMENT_RULES, opcode: changed})
        patch.setattr(build, "ELEMENT_RULES", rules)

    return plant


def entry(module: Any, name: str, key: str, value: Any) -> Plant:
    """One entry of a table of a module replaced."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(module, name, MappingProxyType({**getattr(module, name), key: value}))

    return plant


def function(module: Any, name: str, wrong: Any) -> Plant:
    """A function of a module or class replaced."""
    return lambda patch: patch.setattr(module, name, wrong)


def together(*plants: Plant) -> Plant:
    """Several at once: the same mistake in every place that could make it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(patch)

    return plant


def with_attr(name: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """A rule that sees one attribute of its instruction changed."""

    def wrong(right: ElementRule, e: Any, i: Any, index: Any) -> Any:
        return right(e, replace(i, attrs={**i.attrs, name: change(i[name])}), index)

    return wrong


def _iota(right: ElementRule, e: Any, i: Any, index: Any) -> Any:
    last = len(i.shape.dims) - 1
    return right(e, replace(i, attrs={"iota_dimension": last - i["iota_dimension"]}), index)


def _reverse(right: ElementRule, e: Any, i: Any, index: Any) -> Any:
    return e.operand(i, 0, index)


def _transpose(right: ElementRule, e: Any, i: Any, index: Any) -> Any:
    return e.operand(i, 0, tuple(index[d] for d in i["dimensions"]))


def _clamp_one_more(self: IndexMath, x: Any, low: int, high: int) -> Any:
    """The last position is never reached."""
    high = max(high - 1, low)
    if isinstance(x, int):
        return min(max(x, low), high)
    if low == high:
        return low
    return self.b.intrinsic("smin", self.b.intrinsic("smax", x, low), high)


def _no_init(e: Any, extents: Any, initial: Any, step: Any) -> Any:
    """Starts a reduction from the second element of its first dimension."""
    shorter = [max(n - 1, 0) if at == 0 else n for at, n in enumerate(extents)]
    return _reduction_loop(e, shorter, initial, step)


_reduction_loop = reduction.reduction_loop
_float_to_integer = convert.float_to_integer
_window_position = reduction.window_position
_in_place_pairs = in_place.in_place_pairs


def _wraps(b: Any, value: Any, type_: Any, *, signed: bool) -> Any:
    """Converts without saturating: a NaN or a large number becomes the lowest one."""
    right = _float_to_integer(b, value, type_, signed=signed)
    return b.select(b.fcmp("une", value, value), 1, right)


def _undilated(e: Any, window: Any, output: Any, inner: Any) -> Any:
    return _window_position(e, [replace(w, window_dilation=1) for w in window], output, inner)


def _undilated_coordinate(plan: Any, axis: int, at: int) -> int:
    window = plan.axes[axis].window
    if plan.is_turned:
        return int(at * window.stride - window.pad_low)
    return int(window.size - 1 - at) if window.reversal else at


def _unreversed(e: Any, window: Any, output: Any, inner: Any) -> Any:
    return _window_position(e, [replace(w, reversal=not w.reversal) for w in window], output, inner)


def _everything_fits(e: Any, i: Any, starts: Any) -> list[Any]:
    """Drops a window only if it begins outside."""
    dims = i.operands[0].shape.dims
    return [e.at.within(s, 0, max(dims[d] - 1, 0)) for d, s in starts.items()]


def _all_in_place(computation: Any) -> Any:
    """Every operand of the result's shape may be overwritten, wherever it is read."""
    root = computation.root
    return _in_place_pairs(computation) | frozenset(
        (0, n)
        for n, p in enumerate(computation.parameters)
        if root.shape.is_array
        and p.shape.dims == root.shape.dims
        and p.shape.element_type is root.shape.element_type
    )


def _swapped_select(b: Any, operation: Any, args: Any) -> Any:
    return _select(b, operation, (args[0], args[2], args[1]))


_select = elementwise.GENERAL_EMITTERS["select"]


def _unstable(k: Any, rows: Any, first: Any, second: Any) -> Any:
    """Compares the other way round, which lets equal elements change places."""
    before = _precedes(k, rows, second, first)
    return k.b.not_(before)


_precedes = sort_microkernel._Sorter._precedes


def _unstable_sorts(patch: pytest.MonkeyPatch) -> None:
    """Sorts are microkernels, which are kept: those with the bug in a table of their own."""
    patch.setattr(sort_microkernel._Sorter, "_precedes", _unstable)
    patch.setattr(LIBRARY, "_compiled", {})


def _ordered_maximum(b: Any, args: Any) -> Any:
    """The hardware's maximum, which forgets a NaN on the left."""
    return b.select(b.fcmp("ogt", args[0], args[1]), args[0], args[1])


def _shift_unchecked(b: Any, dtype: Any, args: Any) -> Any:
    """Takes the shift modulo the width, as x86 does."""
    width = args[0].type.bits
    return b.shl(args[0], b.and_(args[1], width - 1))


def _no_zero_check(b: Any, dtype: Any, args: Any) -> Any:
    """x / 0 gives 0."""
    return b.select(b.icmp("eq", args[1], 0), 0, _divide(b, dtype, args))


_divide = integers.INTEGER_EMITTERS["divide"]


def _wrong_pad(padding: Any) -> Any:
    return tuple(replace(p, low=p.low + (1 if p.interior else 0)) for p in padding)


def _wrong_concatenate(right: ElementRule, e: Any, i: Any, index: Any) -> Any:
    """The last element of the result comes from the element before it."""
    (axis,) = i["dimensions"]
    last = i.shape.dims[axis] - 1
    at = e.at.clamp(index[axis], 0, max(last - 1, 0))
    return right(e, i, (*index[:axis], at, *index[axis + 1 :]))


def _swapped_groups(e: Any, i: Any, d: Any, out_feature: Any) -> Any:
    features, batches = _group_bases(e, i, d, out_feature)
    return (0 if i["feature_group_count"] > 1 else features), batches


_group_bases = contraction._group_bases


def _backwards_vector(e: Any, indices: Any, batch: Any, dims: Any) -> Any:
    """Reads the components of an index vector in the opposite order."""
    return _index_vector(e, indices, batch, replace(dims, index_map=dims.index_map[::-1]))


_index_vector = indexing.index_vector


def _swapped_operands(b: Any, args: Any) -> Any:
    return _subtract(b, (args[1], args[0]))


_subtract = elementwise.FLOAT_EMITTERS["subtract"]


def _signed_minimum(b: Any, dtype: Any, args: Any) -> Any:
    """Compares unsigned numbers as if they had a sign."""
    return _minimum(b, dt.S32 if dtype.is_integral else dtype, args)


_minimum = integers.INTEGER_EMITTERS["minimum"]


def _conjugated(b: Any, args: Any) -> Any:
    """x times the conjugate of y."""
    return _multiply(b, (args[0], replace(args[1], imag=b.fneg(args[1].imag))))


_multiply = elementwise.COMPLEX_EMITTERS["multiply"]


def _broadcast_last(right: ElementRule, e: Any, i: Any, index: Any) -> Any:
    """Lines dimensions up at the end, as NumPy does."""
    source = i.operands[0].shape.dims
    last = index[len(index) - len(source) :]
    return e.operand(
        i, 0, tuple(e.at.clamp(x, 0, max(n - 1, 0)) for x, n in zip(last, source, strict=True))
    )


BUGS: tuple[PlantedBug, ...] = (
    PlantedBug("pad shifts by one where it dilates", ("pad",),
               rule("pad", with_attr("padding", _wrong_pad))),
    PlantedBug("clamped starts end one too early", ("dynamic-slice", "gather"),
               function(IndexMath, "clamp", _clamp_one_more)),
    PlantedBug("reduce leaves out an element", ("reduce",),
               function(reduction, "reduction_loop", _no_init)),
    PlantedBug("iota counts along another dimension", ("iota",), rule("iota", _iota)),
    PlantedBug("reverse does nothing", ("reverse",), rule("reverse", _reverse)),
    PlantedBug("transpose applies the inverse permutation", ("transpose",),
               rule("transpose", _transpose)),
    PlantedBug("concatenate repeats its last but one element", ("concatenate",),
               rule("concatenate", _wrong_concatenate)),
    PlantedBug("slice ignores strides", ("slice",), rule("slice", with_attr(
        "slice", lambda dims: tuple(replace(s, stride=1) for s in dims)))),
    PlantedBug("select takes the other branch", ("select",),
               entry(elementwise, "GENERAL_EMITTERS", "select", _swapped_select)),
    PlantedBug("maximum forgets a NaN", ("maximum",),
               entry(elementwise, "FLOAT_EMITTERS", "maximum", _ordered_maximum)),
    PlantedBug("conversion of NaN to an integer gives 1", ("convert",),
               function(convert, "float_to_integer", _wraps)),
    PlantedBug("shifts are taken modulo the width", ("shift-left",),
               entry(elementwise, "INTEGER_EMITTERS", "shift-left", _shift_unchecked)),
    PlantedBug("integers divided by zero give zero", ("divide",),
               entry(elementwise, "INTEGER_EMITTERS", "divide", _no_zero_check)),
    PlantedBug("window dilation is ignored", ("reduce-window", "convolution"),
               together(function(reduction, "window_position", _undilated),
                        function(planar.PlanarPlan, "_coordinate", _undilated_coordinate))),
    PlantedBug("convolution flips its kernel", ("convolution",),
               function(reduction, "window_position", _unreversed)),
    PlantedBug("convolution reads the first feature group always", ("convolution",),
               function(contraction, "_group_bases", _swapped_groups)),
    PlantedBug("scatter keeps windows that hang over the edge", ("scatter",),
               function(updates, "window_fits", _everything_fits)),
    PlantedBug("index vectors are read backwards", ("gather",),
               function(indexing, "index_vector", _backwards_vector)),
    PlantedBug("sort is not stable", ("sort",),
               _unstable_sorts),
    PlantedBug("subtract swaps its operands", ("subtract",),
               entry(elementwise, "FLOAT_EMITTERS", "subtract", _swapped_operands)),
    PlantedBug("arithmetic shift forgets the sign", ("shift-right-arithmetic",),
               entry(elementwise, "INTEGER_EMITTERS", "shift-right-arithmetic",
                     integers.INTEGER_EMITTERS["shift-right-logical"])),
    PlantedBug("minimum takes unsigned numbers for signed ones", ("minimum",),
               entry(elementwise, "INTEGER_EMITTERS", "minimum", _signed_minimum)),
    PlantedBug("complex product conjugates", ("multiply",),
               entry(elementwise, "COMPLEX_EMITTERS", "multiply", _conjugated)),
    PlantedBug("subnormal narrow floats are rounded like normal ones", ("multiply", "convert"),
               function(formats, "_round_subnormal", formats._round_normal)),
    PlantedBug("broadcast lines dimensions up at the end", ("broadcast",),
               rule("broadcast", _broadcast_last)),
    PlantedBug("a kernel overwrites what it still reads",
               ("reverse", "transpose", "negate", "sort"),
               function(buffer_assignment, "in_place_pairs", _all_in_place), steps=8),
)  # fmt: skip
