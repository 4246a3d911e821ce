"""Parses and prints windows, convolution dimension numbers, slices, padding and aliasing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from xladev.hlo.attributes import (
    ConvDims,
    OutputAlias,
    PadDim,
    ResultAccuracy,
    SliceDim,
    Window,
    WindowDim,
)
from xladev.hlo.shape import ShapeIndex
from xladev.hlo.text.cursor import LABELS, NUMBER, Cursor
from xladev.hlo.text.scalar_values import parse_float, parse_ints, parse_list

# -- windows: {size=2x2 stride=2x1 pad=0_1x-1_2 lhs_dilate=.. rhs_dilate=.. rhs_reversal=0x1}

_PAIR = re.compile(r"(-?[0-9]{1,19})_(-?[0-9]{1,19})(?:_(-?[0-9]{1,19}))?")
_ONE = re.compile(r"-?[0-9]{1,19}")


def _int64s(cursor: Cursor, texts: Iterable[str]) -> tuple[int, ...]:
    numbers = tuple(map(int, texts))
    if any(not -(2**63) <= n < 2**63 for n in numbers):
        cursor.fail(f"a number in {cursor.seen()} does not fit 64 bits")
    return numbers


def parse_window(cursor: Cursor) -> Window:
    """A window in braces; dimensions that a field leaves out have its default."""
    cursor.expect("{", "before a window")
    start = cursor.start
    fields: dict[str, list[tuple[int, ...]]] = {}
    while not cursor.sees("}"):
        _parse_window_field(cursor, fields)
        cursor.accept(",")
    cursor.expect("}", "after a window")
    sizes = fields.pop("size", [])
    for name, values in fields.items():
        if len(values) != len(sizes):
            cursor.fail(f"window has {len(sizes)} sizes, but {len(values)} of {name}", start)
    return tuple(_window_dim(sizes, fields, i) for i in range(len(sizes)))


def _parse_window_field(cursor: Cursor, fields: dict[str, list[tuple[int, ...]]]) -> None:
    start = cursor.start
    name = cursor.word("a window field")
    if name not in _WINDOW_FIELDS or name in fields:
        known = ", ".join(_WINDOW_FIELDS)
        problem = "twice" if name in fields else "unknown"
        cursor.fail(f"window field {name} is {problem}", start, hint=f"fields are {known}")
    cursor.expect("=")
    fields[name] = _parse_crosses(cursor, paired=name == "pad")


def _parse_crosses(cursor: Cursor, *, paired: bool) -> list[tuple[int, ...]]:
    """``2x3`` as [(2,), (3,)], or with ``paired`` ``0_1x2_3`` as [(0, 1), (2, 3)]."""
    if cursor.kind != NUMBER:
        cursor.fail(f"expected numbers joined by x, not {cursor.seen()}")
    values: list[tuple[int, ...]] = []
    for piece in cursor.value.split("x"):
        found = (_PAIR if paired else _ONE).fullmatch(piece)
        if found is None or (paired and found.group(3)):
            wanted = "a pair such as 0_1" if paired else "a number"
            cursor.fail(f"{piece!r} is not {wanted}")
        groups = found.groups()[:2] if paired else (found.group(),)
        values.append(_int64s(cursor, groups))
    cursor.advance()
    return values


_WINDOW_FIELDS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def _window_dim(
    sizes: list[tuple[int, ...]], fields: dict[str, list[tuple[int, ...]]], i: int
) -> WindowDim:
    def field(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return fields[name][i] if name in fields else default

    low, high = field("pad", (0, 0))
    return WindowDim(
        size=sizes[i][0],
        stride=field("stride", (1,))[0],
        pad_low=low,
        pad_high=high,
        base_dilation=field("lhs_dilate", (1,))[0],
        window_dilation=field("rhs_dilate", (1,))[0],
        reversal=bool(field("rhs_reversal", (0,))[0]),
    )


_WINDOW_PARTS: tuple[tuple[str, Callable[[WindowDim], str], str], ...] = (
    ("stride", lambda d: str(d.stride), "1"),
    ("pad", lambda d: f"{d.pad_low}_{d.pad_high}", "0_0"),
    ("lhs_dilate", lambda d: str(d.base_dilation), "1"),
    ("rhs_dilate", lambda d: str(d.window_dilation), "1"),
    ("rhs_reversal", lambda d: str(int(d.reversal)), "0"),
)


def window_text(window: Window) -> str:
    """A window in braces, without fields that are at their default in every dimension."""
    parts = ["size=" + "x".join(str(d.size) for d in window)] if window else []
    for name, value, default in _WINDOW_PARTS:
        values = [value(d) for d in window]
        if any(v != default for v in values):
            parts.append(f"{name}={'x'.join(values)}")
    return "{" + " ".join(parts) + "}"


# -- convolution dimension numbers: bf01_01io->bf01

_LABELS = re.compile(r"([0-9a-z?]*)_([0-9a-z?]*)->([0-9a-z?]*)")


def parse_conv_dims(cursor: Cursor) -> ConvDims:
    """Dimension labels of input, kernel and output; ``?`` marks a dimension that is not used."""
    found = _LABELS.fullmatch(cursor.value) if cursor.kind == LABELS else None
    if found is None:
        cursor.fail(
            f"expected dimension labels, not {cursor.seen()}", hint="such as bf01_01io->bf01"
        )
    lhs, rhs, out = found.groups()
    spatial = max(map(_spatial_rank, (lhs, rhs, out)))
    parsed = ConvDims(
        *_label_positions(cursor, lhs, "bf", spatial),
        *_label_positions(cursor, rhs, "io", spatial),
        *_label_positions(cursor, out, "bf", spatial),
    )
    cursor.advance()
    return parsed


def _spatial_rank(labels: str) -> int:
    return sum(label.isdigit() for label in labels)


def _label_positions(
    cursor: Cursor, labels: str, named: str, spatial: int
) -> tuple[int, int, tuple[int, ...]]:
    """Positions of the two named labels and of the spatial ones ``0..spatial-1``."""
    at = {label: i for i, label in enumerate(labels) if label != "?"}
    if len(at) != len(labels) - labels.count("?"):
        cursor.fail(f"dimension label given twice in {labels!r}")
    wanted = [*named, *map(str, range(spatial))]
    missing = [w for w in wanted if w not in at] or [w for w in at if w not in wanted]
    if missing or spatial > 10:
        cursor.fail(f"dimension labels {labels!r} must be {''.join(wanted)!r} in some order or ?")
    first, second = (at[n] for n in named)
    return first, second, tuple(at[str(i)] for i in range(spatial))


def conv_dims_text(dims: ConvDims) -> str:
    """Dimension labels such as ``bf01_01io->bf01``."""
    lhs = _labels(dims.input_batch, dims.input_feature, dims.input_spatial, "bf")
    rhs = _labels(dims.kernel_input_feature, dims.kernel_output_feature, dims.kernel_spatial, "io")
    out = _labels(dims.output_batch, dims.output_feature, dims.output_spatial, "bf")
    return f"{lhs}_{rhs}->{out}"


def _labels(first: int, second: int, spatial: tuple[int, ...], named: str) -> str:
    at = {p: str(i) for i, p in enumerate(spatial)} | {first: named[0], second: named[1]}
    return "".join(at.get(i, "?") for i in range(max(at) + 1))


# -- slices: {[0:4:2], [1:3]}


def parse_slice(cursor: Cursor) -> tuple[SliceDim, ...]:
    """One range per dimension; the stride is 1 where left out."""
    return parse_list(cursor, _parse_range)


def _parse_range(cursor: Cursor) -> SliceDim:
    cursor.expect("[", "before a range")
    bounds = [cursor.signed()]
    while cursor.accept(":"):
        bounds.append(cursor.signed())
    if not 2 <= len(bounds) <= 3:
        cursor.fail("a range is [start:limit] or [start:limit:stride]")
    cursor.expect("]", "after a range")
    return SliceDim(*bounds)


def slice_text(ranges: tuple[SliceDim, ...]) -> str:
    """Ranges in braces, with strides where some dimension has one that is not 1."""
    strided = any(r.stride != 1 for r in ranges)
    texts = (f"[{r.start}:{r.limit}{f':{r.stride}' if strided else ''}]" for r in ranges)
    return "{" + ", ".join(texts) + "}"


# -- padding: 0_1_2x0_0


def parse_padding(cursor: Cursor) -> tuple[PadDim, ...]:
    """``low_high`` or ``low_high_interior`` per dimension, joined by x; empty if there are none."""
    if cursor.kind != NUMBER:
        return ()
    dims: list[PadDim] = []
    for piece in cursor.value.split("x"):
        found = _PAIR.fullmatch(piece)
        if found is None:
            cursor.fail(f"{piece!r} is not padding such as 0_1 or 0_1_2")
        dims.append(PadDim(*_int64s(cursor, found.groups(default="0"))))
    cursor.advance()
    return tuple(dims)


def padding_text(dims: tuple[PadDim, ...]) -> str:
    """Padding with interior where some dimension has any."""
    if any(d.interior for d in dims):
        return "x".join(f"{d.low}_{d.high}_{d.interior}" for d in dims)
    return "x".join(f"{d.low}_{d.high}" for d in dims)


# -- aliasing of an instruction: { {0}: (1, {}) }


def parse_aliasing(cursor: Cursor) -> tuple[OutputAlias, ...]:
    """Which parts of the result share a buffer with parts of operands."""
    return parse_list(cursor, _parse_alias)


def _parse_alias(cursor: Cursor) -> OutputAlias:
    output = parse_ints(cursor)
    cursor.expect(":", "after an output index")
    cursor.expect("(")
    operand = cursor.signed("an operand number")
    cursor.expect(",")
    operand_index = parse_ints(cursor)
    cursor.expect(")", "after an operand's part")
    return OutputAlias(output, operand, operand_index)


def aliasing_text(aliases: tuple[OutputAlias, ...]) -> str:
    """Aliases in braces."""
    texts = (
        f"{index_text(a.output_index)}: ({a.operand}, {index_text(a.operand_index)})"
        for a in aliases
    )
    return "{" + ", ".join(texts) + "}"


def index_text(index: ShapeIndex) -> str:
    """A shape index or list of integers: ``{1,0}``."""
    return "{" + ",".join(map(str, index)) + "}"


# -- accuracy: {mode=highest} or {tolerance={atol=0,rtol=0,ulps=2}}


def parse_accuracy(cursor: Cursor) -> ResultAccuracy:
    """A mode, or tolerances."""
    cursor.expect("{")
    start = cursor.start
    key = cursor.word()
    cursor.expect("=")
    if key == "mode":
        accuracy = ResultAccuracy(mode=cursor.word("a mode"))
    elif key == "tolerance":
        accuracy = _parse_tolerance(cursor)
    else:
        cursor.fail(f"expected mode or tolerance, not {key!r}", start)
    cursor.expect("}")
    return accuracy


def _parse_tolerance(cursor: Cursor) -> ResultAccuracy:
    cursor.expect("{")
    values: dict[str, float] = {}
    while not cursor.sees("}"):
        start = cursor.start
        key = cursor.word()
        if key not in ("atol", "rtol", "ulps") or key in values:
            cursor.fail(f"expected atol, rtol and ulps once each, not {key!r}", start)
        cursor.expect("=")
        values[key] = cursor.signed() if key == "ulps" else parse_float(cursor)
        if not cursor.accept(","):
            break
    cursor.expect("}", "after a tolerance")
    return ResultAccuracy(
        "", values.get("atol", 0.0), values.get("rtol", 0.0), int(values.get("ulps", 0))
    )


def accuracy_text(accuracy: ResultAccuracy) -> str:
    """An accuracy in braces."""
    if accuracy.mode:
        return f"{{mode={accuracy.mode}}}"
    tolerances = f"atol={accuracy.atol!r},rtol={accuracy.rtol!r},ulps={accuracy.ulps}"
    return f"{{tolerance={{{tolerances}}}}}"
