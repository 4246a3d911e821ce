"""Compiles emitted modules in this process and runs elementwise kernels over NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from xladev.codegen import (
    ModuleBuilder,
    Parameter,
    TargetTraits,
    emit_elementwise,
    load_element,
    store_element,
)
from xladev.codegen.llvm import I64, PTR, VOID
from xladev.hlo.dtype import PrimitiveType

_libraries: list[Any] = []


@cache
def machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True
    )


@cache
def _compiler() -> Any:
    return llvm.create_lljit_compiler(machine())


@cache
def host() -> TargetTraits:
    """This machine, as far as code depends on it that calls no library to convert f16."""
    features = llvm.get_host_cpu_features()
    has_half = bool(features.get("f16c")) or not llvm.get_process_triple().startswith("x86_64")
    return TargetTraits(has_half_conversion=has_half)


def compile_function(module: ModuleBuilder, name: str) -> int:
    """Address of a function of the module, compiled for this machine."""
    machine()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    library = llvm.JITLibraryBuilder().add_object_img(machine().emit_object(parsed))
    library = library.add_current_process().export_symbol(name)
    loaded = library.link(_compiler(), f"{module.name}.{len(_libraries)}")
    _libraries.append(loaded)
    return loaded[name]


def run(function: int, *arguments: Any) -> None:
    """Calls a function of pointers and 64-bit integers."""
    kinds = [ctypes.c_void_p if isinstance(a, np.ndarray) else ctypes.c_int64 for a in arguments]
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    ctypes.CFUNCTYPE(None, *kinds)(function)(*values)


class Kernel:
    """An elementwise opcode compiled for its element types; call it with arrays of equal shape."""

    def __init__(
        self,
        opcode: str,
        operands: Sequence[PrimitiveType],
        result: PrimitiveType,
        attributes: Mapping[str, object] | None = None,
        lanes: int = 1,
        target: TargetTraits | None = None,
    ) -> None:
        self.operands, self.result, self.lanes = tuple(operands), result, lanes
        module = ModuleBuilder(f"{opcode}.{result}", target or host())
        parameters = [Parameter(PTR, f"p{i}") for i in range(len(operands) + 1)]
        b = module.function("kernel", VOID, [*parameters, Parameter(I64, "n")])
        *inputs, output, count = b.arguments
        with b.loop(0, count, lanes) as i:
            elements = [
                load_element(b, base, i, dtype, lanes=lanes)
                for base, dtype in zip(inputs, operands, strict=True)
            ]
            value = emit_elementwise(b, opcode, operands, result, elements, attributes)
            store_element(b, output, i, result, value)
        b.ret()
        self._function = compile_function(module, "kernel")

    def __call__(self, *arrays: Any) -> Any:
        inputs = [
            np.ascontiguousarray(array, dtype=dtype.np)
            for array, dtype in zip(arrays, self.operands, strict=True)
        ]
        shape = inputs[0].shape
        count = -(-inputs[0].size // self.lanes) * self.lanes
        padded = [np.resize(array, count) for array in inputs]
        output = np.zeros(count, self.result.np)
        run(self._function, *padded, output, count)
        return output[: inputs[0].size].reshape(shape)


def unary(opcode: str, dtype: PrimitiveType, x: Any, **attributes: object) -> Any:
    """``opcode`` of an array, result in the same type."""
    return Kernel(opcode, (dtype,), dtype, attributes)(x)


def binary(opcode: str, dtype: PrimitiveType, x: Any, y: Any, **attributes: object) -> Any:
    """``opcode`` of two arrays, result in the same type."""
    return Kernel(opcode, (dtype, dtype), dtype, attributes)(x, y)


def every_value(dtype: PrimitiveType) -> Any:
    """All values of a type of at most 16 bits, by code."""
    width = {1: np.uint8, 2: np.uint16}[dtype.host_nbytes]
    bits = min(dtype.bits, 8 * dtype.host_nbytes)
    codes = np.arange(2 if dtype.name == "pred" else 1 << bits).astype(width)
    return codes.view(dtype.np)
