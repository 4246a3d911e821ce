"""LLVM assembly as text: types, values, a module builder and a function builder.

Text instead of an object builder: an order of magnitude faster to produce, and it can spell
everything LLVM has. Nothing here needs LLVM itself.
"""

from xladev.codegen.llvm.module import FunctionBuilder, ModuleBuilder, Parameter, SharedEmitter
from xladev.codegen.llvm.target import GENERIC, TargetTraits
from xladev.codegen.llvm.types import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    PTR,
    VOID,
    IrType,
    integer,
    vector,
)
from xladev.codegen.llvm.values import Operand, Value, constant, from_bits

__all__ = [
    "BFLOAT", "DOUBLE", "FLOAT", "GENERIC", "HALF", "I1", "I8", "I16", "I32", "I64", "I128", "PTR",
    "VOID", "FunctionBuilder", "IrType", "ModuleBuilder", "Operand", "Parameter", "SharedEmitter",
    "TargetTraits", "Value", "constant", "from_bits", "integer", "vector",
]  # fmt: skip
