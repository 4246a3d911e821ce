"""All microkernels of products that are worth compiling before anybody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xladev.codegen.llvm import FLOAT, I64, PTR, VOID, FunctionBuilder, ModuleBuilder, Value
from xladev.hlo import dtype as dt
from xladev.platforms.cpu.codegen.products.all_panels import AllPanelsArguments, call_pack_all
from xladev.platforms.cpu.codegen.products.channels import ChannelsArguments, call_channels
from xladev.platforms.cpu.codegen.products.denormals import LeastArguments, call_least_exponent
from xladev.platforms.cpu.codegen.products.depthwise import DepthwiseArguments, call_depthwise
from xladev.platforms.cpu.codegen.products.driver import BlockArguments, call_block, call_stream
from xladev.platforms.cpu.codegen.products.few_rows import FewRowsArguments, call_few_rows
from xladev.platforms.cpu.codegen.products.filters import FiltersArguments, call_pack_filters
from xladev.platforms.cpu.codegen.products.kinds import ProductKind, ReductionStep
from xladev.platforms.cpu.codegen.products.left_panels import LeftArguments, call_pack_left
from xladev.platforms.cpu.codegen.products.narrowing import NarrowingArguments, call_narrowing
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.padded_planes import (
    STRIDES,
    CopyArguments,
    SumsArguments,
    call_copy,
    call_sums,
)
from xladev.platforms.cpu.codegen.products.patches import (
    LanesArguments,
    PatchesArguments,
    PatchKind,
    call_lanes,
    call_patches,
)
from xladev.platforms.cpu.codegen.products.row_sums import RowSumsArguments, call_row_sums
from xladev.platforms.cpu.codegen.products.runs import RunsArguments, call_runs
from xladev.platforms.cpu.codegen.products.swapped_block import (
    SwappedArguments,
    TurningArguments,
    call_swapped,
    call_turning,
)
from xladev.platforms.cpu.codegen.products.tables import (
    LinesArguments,
    WindowKind,
    WindowsArguments,
    call_lines,
    call_windows,
)
from xladev.platforms.cpu.codegen.products.weights import (
    DivisionArguments,
    WeightsArguments,
    call_division,
    call_weights,
)

TYPES = (
    (dt.F32, dt.F32, dt.F32),
    (dt.F64, dt.F64, dt.F64),
    (dt.BF16, dt.BF16, dt.F32),
    (dt.F16, dt.F16, dt.F32),
    (dt.S8, dt.S8, dt.S32),
)
"""Types of the operands and of the sums; what convolutions alone need comes with the first."""
MOST_AXES = 3
"""Spatial dimensions of convolutions."""

_NULL = Value("null", PTR)


def call_all_products(module: ModuleBuilder) -> None:
    """Adds a function that calls each microkernel; nobody is meant to run it."""
    b = module.function("products", VOID)
    kinds = [ProductKind.of(module.target, *types) for types in TYPES]
    for kind in kinds:
        for each in _kinds(kind, module):
            _call_kind(b, each)
    edges = [kinds[0].with_edges(in_sevens) for in_sevens in (False, True)]
    for kind in dict.fromkeys(edges):
        _call_blocks(b, kind)
    for tile in sorted({kind.rows for kind in kinds}):
        call_lines(b, tile, LinesArguments(*_arguments(b, LinesArguments._fields)))
        _call_windows(b, tile, has_edges=False)
    for tile, size in sorted({(kind.rows, kind.left.host_nbytes) for kind in kinds}):
        call_pack_left(b, tile, size, LeftArguments(*_arguments(b, LeftArguments._fields)))
    for tile in sorted({kind.rows for kind in edges}):
        _call_windows(b, tile, has_edges=True)
    if kinds[0].lanes > 1:
        _call_planar(b, kinds[0])
    _call_attention(b)
    b.ret()


def _call_planar(b: FunctionBuilder, kind: ProductKind) -> None:
    """What convolutions of planes need besides products."""
    call_runs(b, kind, RunsArguments(*_arguments(b, RunsArguments._fields)))
    for stride in STRIDES:
        call_copy(b, kind, stride, CopyArguments(*_arguments(b, CopyArguments._fields)))
    call_sums(b, kind, SumsArguments(*_arguments(b, SumsArguments._fields)))
    for dimensions in range(1, MOST_AXES + 2):
        call_lanes(b, dimensions, LanesArguments(*_arguments(b, LanesArguments._fields)))
    for axes, is_dilated in product(range(1, MOST_AXES + 1), (False, True)):
        patches = PatchesArguments(*_arguments(b, PatchesArguments._fields))
        call_patches(b, kind, PatchKind(axes, is_dilated), patches)
        depthwise = DepthwiseArguments(*_arguments(b, DepthwiseArguments._fields))
        call_depthwise(b, kind, PatchKind(axes, is_dilated), depthwise)


def _call_attention(b: FunctionBuilder) -> None:
    """What attention needs besides products."""
    kind = ProductKind.of(b.module.target, dt.F32, dt.F32, dt.F32)
    for order in (Order.ROWS, Order.COLUMNS, Order.APART):
        panels = AllPanelsArguments(*_arguments(b, AllPanelsArguments._fields))
        call_pack_all(b, kind, order, panels)
    call_weights(b, WeightsArguments(*_arguments(b, WeightsArguments._fields)))
    call_division(b, DivisionArguments(*_arguments(b, DivisionArguments._fields)))


def _call_windows(b: FunctionBuilder, tile: int, has_edges: bool) -> None:
    for axes, is_dilated in product(range(MOST_AXES + 1), (False, True)):
        if axes or not has_edges:
            windows = WindowsArguments(*_arguments(b, WindowsArguments._fields))
            call_windows(b, WindowKind(tile, axes, is_dilated, has_edges), windows)


def _kinds(kind: ProductKind, module: ModuleBuilder) -> list[ProductKind]:
    """The kind, and those that multiply several elements at once."""
    quads, pairs = kind.in_quads(module.target), kind.in_pairs(module.target)
    return [kind, *filter(None, (quads, pairs, pairs and pairs.exact))]


def _call_blocks(b: FunctionBuilder, kind: ProductKind) -> None:
    for order in Order:
        if order is not Order.PANELS or kind.keeps_columns:
            call_block(b, kind, order, BlockArguments(*_arguments(b, BlockArguments._fields)))


def _call_kind(b: FunctionBuilder, kind: ProductKind) -> None:
    _call_blocks(b, kind)
    if kind.total.is_float and kind.step is ReductionStep.ELEMENT:
        call_few_rows(b, kind, FewRowsArguments(*_arguments(b, FewRowsArguments._fields)))
    if kind.has_pairs:
        call_least_exponent(b, kind, LeastArguments(*_arguments(b, LeastArguments._fields)))
    if kind.right is kind.left is not kind.total and kind.total is dt.F32:
        narrowing = NarrowingArguments(*_arguments(b, NarrowingArguments._fields))
        call_narrowing(b, kind, kind.right, narrowing)
    if kind.right is not kind.total:
        return
    call_stream(b, kind, BlockArguments(*_arguments(b, BlockArguments._fields)))
    call_pack_filters(b, kind, FiltersArguments(*_arguments(b, FiltersArguments._fields)))
    call_channels(b, kind, ChannelsArguments(*_arguments(b, ChannelsArguments._fields)))
    for is_far in (False, True):
        row_sums = RowSumsArguments(*_arguments(b, RowSumsArguments._fields))
        call_row_sums(b, kind, row_sums, is_far)
    call_swapped(b, kind, SwappedArguments(*_arguments(b, SwappedArguments._fields)))
    call_turning(b, kind, TurningArguments(*_arguments(b, TurningArguments._fields)))


_POINTERS = frozenset(
    {"table", "starts", "zeros", "base", "facts", "windows", "runs", "right", "result", "panel",
     "fetched", "matrix", "vector", "factors", "lines", "least", "sums", "scores",
     "source", "target", "lanes", "packed", "offsets", "panels", "following"}
)  # fmt: skip


def _arguments(b: FunctionBuilder, names: Sequence[str]) -> list[Value]:
    """Values of the right types."""
    numbers = {"factor": b.const(FLOAT, 0.0)}
    zero = b.const(I64, 0)
    return [_NULL if name in _POINTERS else numbers.get(name, zero) for name in names]
