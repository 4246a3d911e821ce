"""Definitions of primitives that targets have in common, as LLVM's assembly."""

from __future__ import annotations

NO_EXCHANGE = """
define internal void @xd.exchange(ptr %simt, i32 %bits) alwaysinline {
  ret void
}"""
"""Of ``xd.exchange``, where all that threads exchange goes through ``xd.shuffle``."""


def call_of(symbol: str, intrinsic: str) -> str:
    """A primitive that an intrinsic without operands computes, as i32: a number of a thread."""
    return (
        f"declare noundef i32 @{intrinsic}()\n"
        f"define internal i32 @{symbol}(ptr %simt) alwaysinline {{\n"
        f"  %r = call i32 @{intrinsic}()\n  ret i32 %r\n}}"
    )


def shared_memory_in(space: int) -> str:
    """``xd.shared``, static memory in an address space that a flat address reaches too."""
    return f"""
@xd.shared.memory = internal addrspace({space}) global [SHARED_NBYTES x i8] undef, align 16
define internal ptr @xd.shared(ptr %simt) alwaysinline {{
  ret ptr addrspacecast (ptr addrspace({space}) @xd.shared.memory to ptr)
}}"""
