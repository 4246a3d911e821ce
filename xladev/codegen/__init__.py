"""LLVM emission shared by backends.

`codegen.llvm` builds LLVM assembly as text; `codegen.scalar` emits HLO elements; `codegen.math`
emits mathematical functions; `codegen.simt` writes kernels for devices of blocks and threads. A
platform compiles the text: nothing imports LLVM here but `codegen.simt.emulation`, which runs it.

A kernel that adds one to n floats::

    module = ModuleBuilder("example", TargetTraits())
    b = module.function("kernel", VOID, [Parameter(PTR, "x"), Parameter(PTR, "y")])
    x, y = b.arguments
    with b.loop(0, 1000) as i:
        element = load_element(b, x, i, F32)
        one = constant_element(F32, 1.0)
        total = emit_elementwise(b, "add", (F32, F32), F32, (element, one))
        store_element(b, y, i, F32, total)
    b.ret()
    text = str(module)

The vocabulary of the layer above:

- ``emit_elementwise(b, opcode, operand_types, result_type, operands, attributes) -> Element``:
  every elementwise opcode on every element type. Operands and results are in *compute
  representation* (see `codegen.scalar.elements`): an `Element` is a `Value`, or a `ComplexValue`
  for complex types. ``is_elementwise(opcode)`` tells which opcodes it knows.
- ``load_element(b, base, index, dtype, lanes=1)`` and ``store_element(b, base, index, dtype,
  element)``: between dense host arrays and the compute representation.
- ``storage_type(dtype)``: LLVM type of an element in memory (of each part, for complex types);
  pure data movement loads and stores it with ``b.load`` and ``b.store`` and keeps every bit.
- ``compute_type(dtype)``: LLVM type of the compute representation (of each part).
- ``constant_element(dtype, number)``, ``to_bits``, ``from_bits``: constants and bit patterns.
- a function ``f(b, values) -> Value`` becomes one internal function per module by
  ``b.call_shared(name, result_type, values, f)``; ``b.call_shared_many`` for several results.

All of these take vectors: every value of one operation has the same lane count, and lanes give the
same bits as scalars. No fast-math flag is ever set, and nothing is contracted: results do not
depend on the machine. The functions that programs spend their time in (exp, log, tanh and their
kin, sin, cos, erf) are computed in f32 for f32, within 0.9 ulp (exp, log) and 1.8; the others in
f64, within 0.51; f64 within 2.7. The tables are in ``tests/unit/codegen/math``.
"""

from xladev.codegen.llvm import (
    FunctionBuilder,
    IrType,
    ModuleBuilder,
    Parameter,
    TargetTraits,
    Value,
)
from xladev.codegen.scalar import (
    ComplexValue,
    Element,
    compute_type,
    constant_element,
    emit_elementwise,
    from_bits,
    is_elementwise,
    load_element,
    storage_type,
    store_element,
    to_bits,
)

__all__ = [
    "ComplexValue", "Element", "FunctionBuilder", "IrType", "ModuleBuilder", "Parameter",
    "TargetTraits", "Value", "compute_type", "constant_element", "emit_elementwise", "from_bits",
    "is_elementwise", "load_element", "storage_type", "store_element", "to_bits",
]  # fmt: skip
