"""One HLO element at a time: storage and compute types, loads, stores, elementwise opcodes."""

from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elements import ComplexValue, Element, compute_type
from xladev.codegen.scalar.elementwise import emit_elementwise, is_elementwise
from xladev.codegen.scalar.storage import (
    from_bits,
    load_element,
    storage_type,
    store_element,
    to_bits,
)

__all__ = [
    "ComplexValue",
    "Element",
    "compute_type",
    "constant_element",
    "emit_elementwise",
    "from_bits",
    "is_elementwise",
    "load_element",
    "storage_type",
    "store_element",
    "to_bits",
]
