"""The module of a kernel for its device: the function of a thread, its entry, and definitions."""

from __future__ import annotations

import re
from dataclasses import replace

from xladev.codegen.llvm import PTR, VOID, IrType, Value
from xladev.codegen.simt.kernel import ThreadFunction
from xladev.codegen.simt.primitives import THREAD, with_definitions
from xladev.codegen.simt.target import SimtTarget


def kernel_text(thread: ThreadFunction, target: SimtTarget) -> tuple[str, str]:
    """The module for LLVM, and its entry symbol."""
    entry = "k_" + re.sub(r"\W", "_", thread.name)
    attributes = target.entry_attributes(thread.dimensions.block[0], thread.resident)
    space = target.array_space
    array = IrType(f"ptr addrspace({space})") if space else PTR
    parameters = [replace(p, type=array) for p in thread.parameters]
    b = thread.module.function(
        entry, VOID, parameters, linkage=target.linkage, attributes=attributes
    )
    arrays = [b.cast("addrspacecast", p, PTR) if space else p for p in b.arguments]
    b.call_void(THREAD, Value("null", PTR), *arrays)
    b.ret()
    text = str(thread.module)
    return with_definitions(text, target.primitives, target.name, thread.shared_nbytes), entry
