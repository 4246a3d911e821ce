"""Which programs meet a difference between xladev's meaning and XLA's CPU that is on record.

Each rule stands for a sentence of `OpDef.differences`; a program that meets none is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import WindowDim, dilated
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Array
from xladev.hlo.opdef import Tolerance


def _always(_: HloInstruction) -> bool:
    return True


def _is_complex(i: HloInstruction) -> bool:
    return i.operands[0].shape.element_type.is_complex


def _is_integral(i: HloInstruction) -> bool:
    return i.shape.element_type.is_integral


def _to_float(i: HloInstruction) -> bool:
    return i.shape.element_type.is_float


def _window_differs(i: HloInstruction) -> bool:
    """Padding and holes are skipped; and so are initial values of single elements."""
    window = i["window"]
    padded = any(w.pad_low or w.pad_high or w.base_dilation > 1 for w in window)
    return padded or all(w.size == 1 for w in window)


def _reduces_nothing(i: HloInstruction) -> bool:
    dims = i.operands[0].shape.dims
    return all(dims[d] == 1 for d in i["dimensions"])


def _is_narrow(i: HloInstruction) -> bool:
    return i.shape.element_type.bits < 8


def _count_differs(i: HloInstruction) -> bool:
    return _is_narrow(i) or i.shape.element_type.is_signed


def _is_half(i: HloInstruction) -> bool:
    """A float narrower than f32: XLA rounds after each step."""
    return i.shape.element_type.bits < 32


def _is_f64(i: HloInstruction) -> bool:
    return i.shape.element_type.component is dt.F64


def _sees_layouts(i: HloInstruction) -> bool:
    """The way of a program to XLA loses layouts, and with them what the bytes mean."""
    shapes = (i.shape, *(o.shape for o in i.operands))
    return any(s.minor_to_major != tuple(reversed(range(s.rank))) for s in shapes)


def _sort_differs(i: HloInstruction) -> bool:
    """Ties are in some order, and narrow integers are mixed up."""
    return not i["is_stable"] or any(o.shape.element_type.bits < 8 for o in i.operands)


def _has_signed_bits(i: HloInstruction) -> bool:
    return i.shape.tuple_shapes[1].element_type not in _UNSIGNED


def _scatter_differs(i: HloInstruction) -> bool:
    """No components, or a combiner of several operands, whose result is a tuple."""
    return not i["scatter_dims_to_operand_dims"] or i.shape.is_tuple


def _selection_differs(i: HloInstruction) -> bool:
    """Types of few values (ties are in some order), and padded windows that miss the array."""
    element_type = i.shape.element_type
    return element_type.is_integral or element_type.bits < 16 or _misses_array(i)


def _misses_array(i: HloInstruction) -> bool:
    """Some dimension is padded, and in some a window is in padding, or an element in none."""
    dims, window = i.shape.dims, i["window"]
    if not any(w.pad_low or w.pad_high for w in window):
        return False
    counts = i.operands[1].shape.dims
    return any(_misses(d, w, n) for d, w, n in zip(dims, window, counts, strict=True))


def _misses(size: int, w: WindowDim, count: int) -> bool:
    first, last = -w.pad_low, (count - 1) * w.stride - w.pad_low
    extent = dilated(w.size, w.window_dilation)
    outside = first + extent <= 0 or last >= size
    return outside or last + extent < size or w.stride > w.size


def _reduces_to_nan(i: HloInstruction) -> bool:
    """XLA gives NaN for constants of this type, rounded."""
    return i.shape.element_type is dt.F8E3M4


_INCOMPLETE = (dt.F4E2M1FN, dt.F6E2M3FN, dt.F6E3M2FN, dt.F8E8M0FNU)
_ONE_BIT = (dt.S1, dt.U1)
_UNSIGNED = (dt.U8, dt.U16, dt.U32, dt.U64)

_RULES: Mapping[str, Callable[[HloInstruction], bool]] = MappingProxyType(
    {
        "rng": _always,
        "rng-get-and-update-state": _always,
        "cholesky": _always,
        "collective-reduce": _always,
        "set-dimension-size": _always,
        "batch-norm-training": _always,
        "batch-norm-inference": _is_half,
        "batch-norm-grad": _always,
        "power": _is_integral,
        "stochastic-convert": _to_float,
        "reduce": _reduces_nothing,
        "reduce-window": _window_differs,
        "count-leading-zeros": _count_differs,
        "bitcast": _sees_layouts,
        "log-plus-one": _is_f64,
        "popcnt": _is_narrow,
        "sort": _sort_differs,
        "sine": _is_complex,
        "rng-bit-generator": _has_signed_bits,
        "scatter": _scatter_differs,
        "select-and-scatter": _selection_differs,
        "round-nearest-afz": _reduces_to_nan,
        "round-nearest-even": _reduces_to_nan,
    }
)
_COMPLEX_FUNCTIONS = frozenset({
    "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "cosine", "sine", "tan", "cosh", "sinh",
    "tanh", "exponential", "exp2", "exponential-minus-one", "log", "log2", "log-plus-one",
    "logistic", "sqrt", "rsqrt", "power",
})  # fmt: skip


def known_difference(module: HloModule, arguments: Sequence[Array]) -> str:
    """The opcode on whose account results may differ; empty if there is none."""
    instructions = [i for c in module.computations for i in c.instructions]
    constants = [i["literal"].array for i in instructions if i.opcode == "constant"]
    special = _has_special([*arguments, *constants])
    for i in instructions:
        if _may_give_what_is_not(i):
            return f"zero or NaN in {i.shape.element_type}, which has none"
        rule = _RULES.get(i.opcode)
        if rule is not None and rule(i):
            return i.opcode
        if special and i.opcode in _COMPLEX_FUNCTIONS and _is_complex(i):
            return f"complex {i.opcode} of special values"
    if any(leaf.element_type in _ONE_BIT for _, leaf in module.entry.root.shape.leaves()):
        return "integers of one bit, which jaxlib hands out as pred"
    flushed = _has_subnormal([*arguments, *constants])
    return "subnormal numbers, which XLA's CPU flushes" if flushed else ""


def _may_give_what_is_not(i: HloInstruction) -> bool:
    computed = i.op.category == "elementwise" or i.op.tolerance is not Tolerance.EXACT
    return computed and i.shape.is_array and i.shape.element_type in _INCOMPLETE


def _has_special(arguments: Sequence[Array]) -> bool:
    with np.errstate(all="ignore"):
        return any(not np.isfinite(_parts(a)).all() or (_parts(a) == 0).any() for a in arguments)


def _has_subnormal(arguments: Sequence[Array]) -> bool:
    for array in arguments:
        dtype = dt.by_numpy(array.dtype).component
        if dtype.is_float and dtype.bits >= 16:
            sizes = np.abs(_parts(array))
            least = float(np.finfo(np.float32).tiny if dtype is not dt.F64 else 2.3e-308)
            if ((sizes > 0) & (sizes < least)).any():
                return True
    return False


def _parts(array: Array) -> Array:
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag]).astype(np.float64)
    return np.asarray(array, np.float64)
