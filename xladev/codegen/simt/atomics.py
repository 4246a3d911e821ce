"""Atomic operations on integers: their order does not change what comes out of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.llvm import VOID, FunctionBuilder, Value
from xladev.codegen.simt.machine import SimtMachine
from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.ir import HloComputation

WIDTHS = (32, 64)
"""Bits of the integers that there are definitions for."""

_UNSIGNED: Mapping[str, str] = MappingProxyType(
    {"add": "add", "and": "and", "or": "or", "xor": "xor", "maximum": "umax", "minimum": "umin"}
)
_SIGNED: Mapping[str, str] = MappingProxyType({**_UNSIGNED, "maximum": "max", "minimum": "min"})
OPERATIONS = ("add", "and", "or", "xor", "max", "min", "umax", "umin")
"""As LLVM's ``atomicrmw`` spells them."""

_CHOICES = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}


def atomic_operation(combiner: HloComputation, dtype: PrimitiveType, machine: SimtMachine) -> str:
    """The operation that a computation of two scalars is; empty if a device has none such."""
    root = combiner.root
    plain = len(combiner.instructions) == 3 and set(root.operands) == set(combiner.parameters)
    integers = dtype.kind in (Kind.SINT, Kind.UINT) and dtype.bits in machine.atomic_bits
    if not plain or not integers or root.shape.element_type is not dtype:
        return ""
    return (_SIGNED if dtype.is_signed else _UNSIGNED).get(root.opcode, "")


def atomic_update(b: FunctionBuilder, operation: str, address: Value, value: Value) -> None:
    """Replaces an integer in memory by its combination with ``value``, in one step."""
    symbol = f"xd.atomic.{operation}.{value.type}"
    b.module.declare(symbol, VOID, ("ptr", "ptr", value.type.text))
    b.call_void(symbol, b.arguments[0], address, value)


def _define(body: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(
        {
            f"xd.atomic.{operation}.i{bits}": (
                f"define internal void @xd.atomic.{operation}.i{bits}"
                f"(ptr %simt, ptr %address, i{bits} %value) alwaysinline {{\n"
                + body[operation].replace("TYPE", f"i{bits}")
                + "\n  ret void\n}"
            )
            for operation in OPERATIONS
            for bits in WIDTHS
        }
    )


def device_atomics(scope: str) -> Mapping[str, str]:
    """Definitions for a device, by symbol.

    Args:
        scope: what the target calls all threads of a device, as LLVM's ``syncscope``.
    """
    target = f'TYPE %value syncscope("{scope}") monotonic'
    return _define({o: f"  %old = atomicrmw {o} ptr %address, {target}" for o in OPERATIONS})


def _in_turn(operation: str) -> str:
    """Threads of the emulator run one at a time."""
    choice = _CHOICES.get(operation)
    combined = f"  %new = {operation} TYPE %old, %value"
    if choice:
        combined = (
            f"  %more = icmp {choice} TYPE %old, %value\n"
            "  %new = select i1 %more, TYPE %old, TYPE %value"
        )
    return f"  %old = load TYPE, ptr %address\n{combined}\n  store TYPE %new, ptr %address"


HOST_ATOMICS = _define({operation: _in_turn(operation) for operation in OPERATIONS})
"""Definitions for the emulator, by symbol."""
