"""Constant right operands of products, packed once: when the program is compiled.

A dot or convolution that would pack a constant in each run reads it in panels instead (`panels.py`
in `codegen/products/`). The constant itself is dropped if nothing else reads it; if something does,
only a small one is kept twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xladev import instrument
from xladev.codegen.llvm import TargetTraits
from xladev.compiler.fusion.instruction_fusion import kernel_programs, without_dead
from xladev.compiler.plan.kernel_table import kernel_computation
from xladev.hlo.in_threads import in_threads
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array, Literal
from xladev.hlo.names import with_unique_names
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, postorder, rebuild
from xladev.hlo.shape import Shape, array
from xladev.passes.pass_ import HloModulePass
from xladev.platforms.cpu.aligned import empty, freeze
from xladev.platforms.cpu.codegen.products.dot import dot_kind, dot_plan
from xladev.platforms.cpu.codegen.products.few_rows import is_faster_than_panels
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.panels import PanelForm, panel_form, with_plain_right
from xladev.platforms.cpu.codegen.products.windows import window_plan
from xladev.platforms.cpu.moved_constants import constant_source, moved_value
from xladev.platforms.cpu.payload import ALIGNMENT

PASS = "constant-panels"
SMALL_NBYTES = 1 << 20
"""Most bytes of panels of a constant that something else reads too, or that are far larger."""
MOST_GROWTH = 1.25
"""Larger panels may be so much larger than the constant: they are filled to the width of a tile."""
LEAST_DEPTH = 8
"""Lines of a panel below which there is nothing to win."""
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ConstantPanels(HloModulePass):
    """Packs constants of products and convolutions into the panels that their kernels read.

    Attributes:
        target: says how wide panels are.
    """

    name = PASS
    only_for = frozenset({"dot", "convolution"})
    target: TargetTraits

    def run(self, module: HloModule) -> HloModule:
        """The module, its kernels formed, with constants in panels."""
        changed = with_constant_panels(module, self.target)
        return module if changed is module else with_unique_names(changed)


def with_constant_panels(module: HloModule, target: TargetTraits) -> HloModule:
    """The module, its kernels formed, with constants in panels where products want them so.

    Args:
        module: row-major, with fusions.
        target: says how wide panels are.
    """
    programs = kernel_programs(module)
    found = {
        i: packed
        for c in module.computations
        if c.name in programs
        for i in c.instructions
        if (packed := _packed(i, target)) is not None
    }
    if not found:
        return module
    valueless = {p.key: Literal(p.shape, elided=True) for p in found.values()}
    refused = set(_too_large(_changed(module, found, valueless), found))
    for i in refused:
        instrument.decision(PASS, i.name, "its constant is large, and read in another order too")
        del found[i]
    return _changed(module, found, _pack(found.values()))


@dataclass(frozen=True, slots=True)
class _Packed:
    """A product and how its constant is to be laid out.

    Attributes:
        source: the constant.
        value: the operand, made of it.
        order: in which panels take the operand's dimensions.
        form: how they hold it then.
        root: the product of a kernel with panels as its second parameter.
    """

    source: HloInstruction
    value: HloInstruction
    order: tuple[int, ...]
    form: PanelForm
    root: HloInstruction

    @property
    def nbytes(self) -> int:
        """Bytes of the panels."""
        return self.shape.nbytes

    @property
    def key(self) -> _Key:
        """What panels that are equal have in common."""
        return id(self.source["literal"]), self.value, self.order, self.form

    @property
    def shape(self) -> Shape:
        """Of the panels."""
        return array(self.value.shape.element_type, self.form.panels).row_major()

    def pack_into(self, place: Array) -> None:
        """Writes the panels to an array of their shape."""
        self.form.packed(moved_value(self.value).transpose(self.order), place)


def _too_large(
    changed: HloModule, found: Mapping[HloInstruction, _Packed]
) -> Iterator[HloInstruction]:
    """Products for which a large constant would be kept twice."""
    kept = {
        id(i["literal"]) for c in changed.computations for i in c.instructions
        if i.opcode == "constant"
    }  # fmt: skip
    forms: dict[int, set[Any]] = {}
    for p in found.values():
        forms.setdefault(id(p.source["literal"]), set()).add((p.order, p.form))
    for i, p in found.items():
        literal = id(p.source["literal"])
        if p.nbytes > SMALL_NBYTES and (literal in kept or len(forms[literal]) > 1):
            yield i


def _pack(found: Iterable[_Packed]) -> dict[_Key, Literal]:
    """Panels, packed by several threads into one piece of memory, where code uses them in place.

    A large piece comes in large pages, where small ones would take longer than the packing.
    """
    packed = {p.key: p for p in found}
    memory = empty(sum(map(_room, packed.values())))
    places: dict[_Key, Array] = {}
    at = 0
    for key, p in packed.items():
        place = memory[at : at + p.nbytes].view(p.shape.element_type.np)
        places[key] = place.reshape(p.shape.dims)
        at += _room(p)
    largest = sorted(packed, key=lambda key: -packed[key].nbytes)
    in_threads(lambda key: packed[key].pack_into(places[key]), largest)
    freeze(memory)
    for place in places.values():
        place.flags.writeable = False
    return {key: Literal(p.shape, places[key]) for key, p in packed.items()}


def _room(p: _Packed) -> int:
    """Bytes of panels and of what is left free after them."""
    return p.nbytes + -p.nbytes % ALIGNMENT


def _changed(
    module: HloModule, found: Mapping[HloInstruction, _Packed], literals: Mapping[_Key, Literal]
) -> HloModule:
    """The module with kernels that read panels."""
    if not found:
        return module

    def change(computation: HloComputation) -> HloComputation:
        made = {i: _kernel(i, found[i], literals) for i in computation.instructions if i in found}
        return without_dead(rebuild(computation, made)) if made else computation

    return map_computations(module, change)


def _kernel(i: HloInstruction, p: _Packed, literals: Mapping[_Key, Literal]) -> HloInstruction:
    """The kernel in place of a product; equal panels are one literal."""
    literal = literals[p.key]
    constant = HloInstruction(
        opdef("constant"), literal.shape, (), {"literal": literal}, f"{p.source.name}.panels"
    )
    body = HloComputation(f"fused.{i.name}.panels", tuple(postorder([p.root])), p.root)
    attrs = {"kind": "kLoop", "calls": body}
    operands = (i.operands[0], constant)
    return HloInstruction(opdef("fusion"), i.shape, operands, attrs, i.name, i.note)


def _packed(i: HloInstruction, target: TargetTraits) -> _Packed | None:
    """The layout for a product's constant; None if there is none, or it is not packed anyway."""
    if i.opcode not in ("dot", "convolution") or len(i.operands) != 2 or i.note.device:
        return None
    value = i.operands[1]
    source = constant_source(value)
    if source is None:
        return None
    product = kernel_computation(i).root
    kind = _kind(product, target)
    if kind is None or not kind.keeps_columns:
        return None
    order, attrs = with_plain_right(product)
    left, right = product.operands
    dims = tuple(value.shape.dims[d] for d in order)
    plain = replace(right, shape=array(value.shape.element_type, dims).row_major())
    turned = replace(product, operands=(left, plain), attrs={**product.attrs, **attrs})
    form = panel_form(turned, kind.width, kind.step.elements)
    if form is None or form.depth < LEAST_DEPTH or form.depth % form.unit:
        return None
    panels = replace(right, shape=array(value.shape.element_type, form.panels).row_major())
    root = replace(turned, operands=(left, form.unpacked(panels)))
    packed = _Packed(source, value, order, form, root)
    is_small = packed.nbytes <= max(SMALL_NBYTES, MOST_GROWTH * source.shape.nbytes)
    return packed if is_small and _kind(root, target) == kind else None


def _kind(product: HloInstruction, target: TargetTraits) -> ProductKind | None:
    """The functions of a product that packs its right operand; None if it does not."""
    if product.opcode == "dot":
        plan = None if is_faster_than_panels(product) else dot_plan(product)
        if plan is None:
            return None
        kind = dot_kind(plan, product, target)
        return None if plan.cuts_depth(kind) else kind  # it reads its operand as it is, once
    windows = window_plan(product)
    if windows is None or windows.is_depthwise:
        return None
    return windows.kind(target.vector_nbytes)
