"""Where kernels have several ways to compute the same, and which: what tuning chooses from.

Each choice has a class: what of a kernel decides which way is fastest. All kernels of a class are
computed in the way that was fastest for the first of them. All ways give the same bits: they sum in
the same order, and sorts are stable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import TargetTraits
from xladev.hlo.attributes import ConvDims
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.cost import estimated_ns
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_of
from xladev.platforms.cpu.codegen.products.dot import BLOCK_COLUMNS, BLOCK_ROWS, DotPlan, dot_plan
from xladev.platforms.cpu.codegen.products.epilogue import core_spec
from xladev.platforms.cpu.codegen.products.few_rows import few_rows_plan
from xladev.platforms.cpu.codegen.products.kinds import (
    PANEL_NBYTES,
    VECTORS,
    WIDEST_NBYTES,
    ProductKind,
)
from xladev.platforms.cpu.codegen.products.matmul import product_of
from xladev.platforms.cpu.codegen.products.row_sums import row_sums_plan
from xladev.platforms.cpu.codegen.products.single_pixel import is_single_pixel
from xladev.platforms.cpu.codegen.products.swapped import swapped_plan
from xladev.platforms.cpu.codegen.products.windows import MOST_ROWS, WindowPlan, window_plan
from xladev.platforms.cpu.codegen.sharing import LEAST_NS, LEAST_PART_NS
from xladev.platforms.cpu.codegen.sorting.sorting import row_sort
from xladev.platforms.cpu.codegen.spelling import digest
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Crossing, SortWay, Tactic
from xladev.platforms.cpu.codegen.tiling import tile_of

EXACT = 16
"""Sizes up to this one are classes of their own; above, there are eight for each power of two."""
TILES = {True: ((8, 3), (6, 4), (4, 4), (4, 2)), False: ((4, 3), (4, 2))}
"""Tiles besides those that kernels choose, by whether vectors have 64 bytes and 32 registers."""
TALL_ROWS = 4 * BLOCK_ROWS
"""Most rows of a tall block of a product of matrices."""
PIXELS = 96, 2 * MOST_ROWS
"""Most rows of a low and of a tall block of a convolution."""
COLUMNS = BLOCK_COLUMNS // 2, 2 * BLOCK_COLUMNS
"""Most columns of a narrow and of a wide block."""
LEAST_MOVED_NS = 2000.0
"""Estimated time from which on the order in which elements are moved matters."""
PART_NS = int(LEAST_PART_NS / 3), int(LEAST_PART_NS * 4)
"""What the shortest part of shared work takes, besides what it takes by default."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Several ways to compute a kernel.

    Attributes:
        family: ``dot``, ``convolution``, ``sort``, ``transpose``, or ``parts`` (of work that
            threads share).
        key: the class, such as ``dot f32 f32 f32 b1 m256 n256 k256 rows full``.
        tactics: the ways; the first one is what the kernel does by itself.
    """

    family: str
    key: str
    tactics: tuple[Tactic, ...]


def choices(spec: KernelSpec, target: TargetTraits, threads: int) -> tuple[Choice, ...]:
    """What can be chosen for a kernel; nothing where there is but one way.

    Args:
        spec: the kernel.
        target: what its code is for.
        threads: that work on it, at most.
    """
    if spec.in_place:
        return ()
    ways = (_product_choice(spec, target), _sort_choice(spec), _transpose_choice(spec))
    found = (*ways, _parts_choice(spec, threads))
    return tuple(choice for choice in found if choice is not None)


def rounded(size: int) -> int:
    """The size that stands for all of its class: the next one with four significant bits."""
    if size <= EXACT:
        return size
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def _product_choice(spec: KernelSpec, target: TargetTraits) -> Choice | None:
    root = core_spec(spec).computation.root
    types = " ".join(value.shape.element_type.name for value in (*root.operands, root))
    has_one_way = (row_sums_plan, few_rows_plan, swapped_plan)
    if root.opcode == "dot" and all(plan(root) is None for plan in has_one_way):
        dot = dot_plan(root)
        if dot is not None:
            tactics = _dot_tactics(root, dot, target)
            tactics = tactics if dot.panels is None else _keeping_panels(tactics)
            return Choice("dot", f"dot {types} {_dot_key(dot)}", tactics)
    if root.opcode == "convolution":
        windows = window_plan(root)
        is_apart = windows is None or windows.is_depthwise or is_single_pixel(windows)
        if windows is not None and not is_apart:
            key = f"convolution {types} {_window_key(windows)}"
            tactics = _window_tactics(root, windows, target)
            tactics = tactics if windows.panels is None else _keeping_panels(tactics)
            return Choice("convolution", key, tactics)
    return None


def _keeping_panels(tactics: Sequence[Tactic]) -> tuple[Tactic, ...]:
    """Those that read panels that are packed: of as many columns as there are by default."""
    return tuple(t for t in tactics if not t.in_tiles and (t.tile is None or t.tile[1] == VECTORS))


def _sort_choice(spec: KernelSpec) -> Choice | None:
    root = spec.computation.root
    if root.opcode != "sort" or not root.operands[0].shape.size:
        return None
    ways = [DEFAULT, *(Tactic(sort_way=way) for way in SortWay)]
    different = {row_sort(spec, tactic): tactic for tactic in reversed(ways)}
    tactics = tuple(tactic for tactic in ways if tactic in different.values())
    if len(tactics) < 2:
        return None
    (axis,) = root["dimensions"]
    dims = root.operands[0].shape.dims
    types = " ".join(value.shape.element_type.name for value in root.operands)
    words = f"n{rounded(dims[axis])} r{rounded(prod(dims) // dims[axis])}"
    return Choice("sort", f"sort {types} {words} {digest(root['to_apply'])}", tactics)


def _transpose_choice(spec: KernelSpec) -> Choice | None:
    """Of kernels that are nothing else. Sizes are exact: they say which lines share a cache set."""
    root = spec.computation.root
    if root.opcode != "transpose" or root.operands[0].opcode != "parameter":
        return None
    tile = tile_of([root], root.shape, always=True)
    if tile is None or estimated_ns(spec) < LEAST_MOVED_NS:
        return None
    dims = "x".join(map(str, root.shape.dims))
    key = f"transpose {root.shape.element_type.name} {dims} {tile.crossed} {tile.inner}"
    return Choice("transpose", key, (DEFAULT, *(Tactic(crossing=way) for way in Crossing)))


def _parts_choice(spec: KernelSpec, threads: int) -> Choice | None:
    """How long parts are, where there are any."""
    cost_ns = estimated_ns(spec)
    if threads < 2 or cost_ns < LEAST_NS:
        return None
    types = " ".join(s.element_type.name for s in (*spec.operands, *spec.results))
    size = rounded(max(shape.size for shape in spec.results))
    key = f"parts {spec.computation.root.opcode} {types} {size} {rounded(int(cost_ns) >> 10)}us"
    tactics = (DEFAULT, *(Tactic(part_ns=ns) for ns in PART_NS))
    return Choice("parts", f"{key} t{threads}", tactics)


def _dot_tactics(i: HloInstruction, plan: DotPlan, target: TargetTraits) -> tuple[Tactic, ...]:
    found = [DEFAULT, *_block_tactics(target)]
    left, right = (o.shape.element_type for o in i.operands[:2])
    kind = ProductKind.of(target, left, right, plan.total)
    cuts = plan.cuts_depth(kind)  # and sums in another order than ways that do not
    other = Tactic(is_streamed=not plan.is_streamed(kind))
    if not cuts and _streams(i, other, kind) is other.is_streamed:
        found.append(other)
    if plan.rows > BLOCK_ROWS:
        found.append(Tactic(block_rows=TALL_ROWS))
    found += [Tactic(block_columns=n) for n in COLUMNS if plan.columns > n]
    if not cuts and _is_of_one_type(i, plan.total) and product_of(i) is not None:
        found.append(Tactic(in_tiles=True))
    return tuple(found)


def _streams(i: HloInstruction, tactic: Tactic, kind: ProductKind) -> bool:
    """Whether columns are read as they are in memory where a tactic wants that or does not."""
    plan = dot_plan(i, tactic)
    return plan is not None and plan.is_streamed(kind)


def _dot_key(plan: DotPlan) -> str:
    """Sizes, how operands are laid out in memory, and whether columns fill tiles."""
    sizes = (prod(plan.batch), plan.rows, plan.columns, plan.depth)
    words = [f"{name}{rounded(size)}" for name, size in zip("bmnk", sizes, strict=True)]
    words.append(plan.order.value)
    words += ["left-apart"] if plan.left.step != 1 else []
    words += ["full"] if plan.columns * plan.total.host_nbytes % (2 * WIDEST_NBYTES) == 0 else []
    return " ".join(words)


def _window_tactics(
    i: HloInstruction, plan: WindowPlan, target: TargetTraits
) -> tuple[Tactic, ...]:
    found = [DEFAULT, *_block_tactics(target, plan.whole_panel_nbytes)]
    found += [Tactic(block_rows=rows) for rows in PIXELS if prod(plan.pixels) > rows]
    found += [Tactic(block_columns=n) for n in COLUMNS if plan.features > n]
    dims: ConvDims = i["dim_labels"]
    is_in_order = list(dims.kernel_spatial) == sorted(dims.kernel_spatial)
    if is_in_order and _is_of_one_type(i, plan.total) and convolution_of(i) is not None:
        found.append(Tactic(in_tiles=True))
    return tuple(found)


def _window_key(plan: WindowPlan) -> str:
    """Sizes, what windows look like, and how filters are laid out in memory."""
    sizes = (prod(plan.pixels), plan.features, plan.channels, plan.groups)
    words = [f"{name}{rounded(size)}" for name, size in zip("pfcg", sizes, strict=True)]
    for axis in plan.axes:
        w = axis.window
        words.append(f"{w.size}/{w.stride}/{w.window_dilation}/{w.base_dilation}")
    words += ["padded"] if plan.is_padded else []
    return " ".join([*words, plan.order.value])


def _is_of_one_type(i: HloInstruction, total: PrimitiveType) -> bool:
    """True if elements are those of the sums: nothing is converted, or multiplied in pairs."""
    return all(value.shape.element_type is total for value in (*i.operands, i))


def _block_tactics(target: TargetTraits, panel_nbytes: int = PANEL_NBYTES) -> Iterator[Tactic]:
    for tile in TILES[target.vector_nbytes >= WIDEST_NBYTES]:
        yield Tactic(tile=tile)
    yield Tactic(panel_nbytes=2 * panel_nbytes)
