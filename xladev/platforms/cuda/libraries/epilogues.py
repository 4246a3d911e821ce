"""Epilogues of matrix products: a bias, then ReLU or GELU (by tanh), in the library's one call.

They are computed in f32, before the result is rounded; a product that others read stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from math import isclose

from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.rewrite import Rewriter, rewrite
from xladev.passes.splats import splat_of
from xladev.platforms.cuda.libraries.calls import Matmul
from xladev.platforms.cuda.libraries.custom_calls import call_of, is_library_call, library_call
from xladev.platforms.cuda.libraries.matmul import EPILOGUE_TYPES

_GELU_SCALE = 0.7978845608028654
_GELU_CUBE = 0.044715


def _product(i: HloInstruction) -> Matmul | None:
    """The matrix product that an instruction is."""
    call = call_of(i) if is_library_call(i) else None
    return call if isinstance(call, Matmul) and call.d.dtype in EPILOGUE_TYPES else None


def _is_plain(i: HloInstruction) -> bool:
    found = _product(i)
    return found is not None and found.epilogue == "DEFAULT"


def _is_without_activation(i: HloInstruction) -> bool:
    found = _product(i)
    return found is not None and found.epilogue in ("DEFAULT", "BIAS")


_PLAIN = m.Opcode("custom-call", capture="x").one_use().where(_is_plain, "a plain product")
_LINEAR = m.Opcode("custom-call", capture="x").where(_is_without_activation, "a product")


@rewrite(m.Add(_PLAIN, m.Broadcast(m.Op("bias"), capture="wide")))
def add_bias(
    r: Rewriter, root: HloInstruction, x: HloInstruction, bias: HloInstruction, wide: HloInstruction
) -> HloInstruction | None:
    """A product and an element for each column of it = a product with a bias."""
    call = _product(x)
    rank, columns = x.shape.rank, bias.shape.rank
    if call is None or not columns or bias.shape.size != call.d.rows:
        return None
    if tuple(wide["dimensions"]) != tuple(range(rank - columns, rank)):
        return None
    changed = replace(call, epilogue="BIAS")
    return library_call(r, x.shape, (*x.operands, bias), changed)


@rewrite(m.Maximum(_LINEAR.one_use(), m.All(0)))
def apply_relu(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
    """The larger of a product and zero = a product with ReLU."""
    return _with_activation(r, x, "RELU")


@rewrite(m.Multiply(m.Op("half"), m.Op("rest")))
def apply_gelu(
    r: Rewriter, root: HloInstruction, half: HloInstruction, rest: HloInstruction
) -> HloInstruction | None:
    """``0.5 x (1 + tanh(0.7978... (x + 0.044715 x x x)))`` of a product = a product with GELU."""
    factors = _factors(root)
    tails = [f for f in factors if f.opcode == "add" and _tanh_of(f) is not None]
    if len(tails) != 1:
        return None
    argument = _tanh_of(tails[0])
    others = [f for f in factors if f is not tails[0]]
    products = [f for f in others if _is_without_activation(f)]
    numbers = [_number(f) for f in others if f not in products]
    if argument is None or len(products) != 1 or not _is_product_of(numbers, 0.5):
        return None
    x = products[0]
    if not _is_gelu_argument(argument, x) or r.uses(x) != _readers_within(root, x):
        return None
    return _with_activation(r, x, "GELU")


def _readers_within(root: HloInstruction, x: HloInstruction) -> int:
    """Instructions that read ``x``, of those that ``root`` is computed by."""
    seen: set[HloInstruction] = set()
    pending = [root]
    while pending:
        i = pending.pop()
        if i is not x and i not in seen:
            seen.add(i)
            pending += i.operands if i.opcode in ("multiply", "add", "tanh") else ()
    return sum(x in i.operands for i in seen)


def _with_activation(r: Rewriter, x: HloInstruction, name: str) -> HloInstruction | None:
    call = _product(x)
    if call is None:
        return None
    epilogue = f"{name}_BIAS" if call.has_bias else name
    return library_call(r, x.shape, x.operands, replace(call, epilogue=epilogue))


def _factors(i: HloInstruction, depth: int = 3) -> list[HloInstruction]:
    """What is multiplied, through nested products."""
    if i.opcode != "multiply" or not depth:
        return [i]
    return [f for o in i.operands for f in _factors(o, depth - 1)]


def _number(i: HloInstruction) -> float | None:
    """The number that all elements of an array are."""
    value = splat_of(i)
    return None if value is None else float(value)


def _is_product_of(numbers: list[float | None], wanted: float) -> bool:
    found = 1.0
    for n in numbers:
        if n is None:
            return False
        found *= n
    return isclose(found, wanted, rel_tol=1e-2)


def _tanh_of(add: HloInstruction) -> HloInstruction | None:
    """The argument of the tanh to which one is added."""
    for one, tanh in (add.operands, add.operands[::-1]):
        if _number(one) == 1 and tanh.opcode == "tanh":
            return tanh.operands[0]
    return None


def _is_gelu_argument(argument: HloInstruction, x: HloInstruction) -> bool:
    factors = _factors(argument)
    sums = [f for f in factors if f.opcode == "add"]
    if len(sums) != 1 or not _is_product_of(
        [_number(f) for f in factors if f is not sums[0]], _GELU_SCALE
    ):
        return False
    for own, cube in (sums[0].operands, sums[0].operands[::-1]):
        parts = _factors(cube)
        numbers = [_number(f) for f in parts if f is not x]
        if own is x and parts.count(x) == 3 and _is_product_of(numbers, _GELU_CUBE):
            return True
    return False
