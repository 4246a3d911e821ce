"""The module of a kernel for its device: the function of a thread, its entry, and definitions."""

from __future__ import annotations

import re

from xladev.codegen.llvm import PTR, VOID, Value
from xladev.codegen.simt.kernel import ThreadFunction
from xladev.codegen.simt.primitives import THREAD, with_definitions
from xladev.codegen.simt.target import SimtTarget


def kernel_text(thread: ThreadFunction, target: SimtTarget) -> tuple[str, str]:
    """The module for LLVM, and its entry symbol."""
    entry = "k_" + re.sub(r"\W", "_", thread.name)
    attributes = target.entry_attributes(thread.dimensions.block[0], thread.resident)
    b = thread.module.function(
        entry, VOID, thread.parameters, linkage=target.linkage, attributes=attributes
    )
    b.call_void(THREAD, Value("null", PTR), *b.arguments)
    b.ret()
    text = str(thread.module)
    return with_definitions(text, target.primitives, target.name, thread.shared_nbytes), entry
