"""One step of a matrix product on tensor cores: mma.m16n8k16 of bf16, from shared memory.

A neutral primitive, `multiply_tiles`: a warp adds 16 x 16 times 16 x 8 elements to 16 x 8 sums in
f32. Both operands are in shared memory as rows of 16 bf16 along the inner dimension. On a GPU each
thread loads its fragment and all do one instruction; on the host each thread sums its own four
results in f32, in the order of the inner dimension.
"""

from __future__ import annotations

from xladev.codegen.llvm import VOID, FunctionBuilder, Value

SYMBOL = "xd.mma.bf16"
ROWS, COLUMNS, DEPTH = 16, 8, 16
PITCH = DEPTH + 8
"""Elements from one row in shared memory to the next: 48 bytes, so that eight rows that are read
together are in different banks."""
SUMS = 4
"""Results of one thread: row lane / 4 and 8 below it, columns 2 * (lane mod 4) and the next."""


def multiply_tiles(b: FunctionBuilder, left: Value, right: Value, sums: Value) -> None:
    """Adds the product of two tiles to the four sums of this thread; all of the warp take part.

    Args:
        b: the function of a thread.
        left: address of 16 rows, aligned to 16 bytes.
        right: address of 8 columns, laid out as rows.
        sums: address of this thread's f32 sums, on its stack.
    """
    b.module.declare(SYMBOL, VOID, ("ptr", "ptr", "ptr", "ptr"))
    b.call_void(SYMBOL, b.arguments[0], left, right, sums)


def _row(name: str, base: str, row: str) -> str:
    return (
        f"  %{name}.n = mul i32 %{row}, {PITCH}\n"
        f"  %{name} = getelementptr bfloat, ptr %{base}, i32 %{name}.n\n"
    )


def _pair(name: str, row: str, first: str) -> str:
    return (
        f"  %{name}.p = getelementptr bfloat, ptr %{row}, i32 %{first}\n"
        f"  %{name} = load i32, ptr %{name}.p, align 4\n"
    )


def _sums(action: str) -> str:
    lines = []
    for n in range(SUMS):
        lines.append(f"  %s{n}.p = getelementptr float, ptr %sums, i32 {n}")
        lines.append(f"  %s{n} = load float, ptr %s{n}.p, align 4")
    text = "\n".join(lines) + "\n"
    return text + action


_LANE = """  %group = lshr i32 %lane, 2
  %below = add i32 %group, 8
  %within = and i32 %lane, 3
  %low = shl i32 %within, 1
  %high = add i32 %low, 8
"""
_INTRINSIC = "llvm.nvvm.mma.m16n8k16.row.col.bf16"
_FOUR = "{ float, float, float, float }"

NVPTX = (
    f"declare {_FOUR} @{_INTRINSIC}(i32, i32, i32, i32, i32, i32, float, float, float, float)"
    " convergent\n"
    "declare noundef i32 @llvm.nvvm.read.ptx.sreg.laneid()\n"
    f"define internal void @{SYMBOL}(ptr %simt, ptr %left, ptr %right, ptr %sums)"
    " alwaysinline convergent {\n"
    "  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()\n"
    + _LANE
    + _row("top", "left", "group")
    + _row("bottom", "left", "below")
    + _row("column", "right", "group")
    + _pair("a0", "top", "low")
    + _pair("a1", "bottom", "low")
    + _pair("a2", "top", "high")
    + _pair("a3", "bottom", "high")
    + _pair("b0", "column", "low")
    + _pair("b1", "column", "high")
    + _sums(
        f"  %all = call {_FOUR} @{_INTRINSIC}(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1,"
        " float %s0, float %s1, float %s2, float %s3)\n"
        + "".join(
            f"  %r{n} = extractvalue {_FOUR} %all, {n}\n  store float %r{n}, ptr %s{n}.p, align 4\n"
            for n in range(SUMS)
        )
    )
    + "  ret void\n}"
)
"""The definition for NVIDIA's targets from sm_80 on."""


def _product(n: int, row: str, column: str) -> str:
    """Adds the k-th elements' product to a sum; bf16 is the upper half of an f32."""
    return (
        f"  %x{n}.p = getelementptr i16, ptr %{row}, i32 %k\n  %x{n}.h = load i16, ptr %x{n}.p\n"
        f"  %x{n}.w = zext i16 %x{n}.h to i32\n  %x{n}.s = shl i32 %x{n}.w, 16\n"
        f"  %x{n} = bitcast i32 %x{n}.s to float\n"
        f"  %y{n}.p = getelementptr i16, ptr %{column}, i32 %k\n  %y{n}.h = load i16, ptr %y{n}.p\n"
        f"  %y{n}.w = zext i16 %y{n}.h to i32\n  %y{n}.s = shl i32 %y{n}.w, 16\n"
        f"  %y{n} = bitcast i32 %y{n}.s to float\n"
        f"  %m{n} = fmul float %x{n}, %y{n}\n  %t{n} = fadd float %v{n}, %m{n}\n"
    )


HOST = (
    f"define internal void @{SYMBOL}(ptr %simt, ptr %left, ptr %right, ptr %sums) noinline {{\n"
    "entry:\n  %tid = load i32, ptr %simt\n  %lane = and i32 %tid, 31\n"
    + _LANE
    + "  %next = add i32 %low, 1\n"
    + _row("top", "left", "group")
    + _row("bottom", "left", "below")
    + _row("even", "right", "low")
    + _row("odd", "right", "next")
    + _sums("  br label %step\nstep:\n  %k = phi i32 [0, %entry], [%k1, %step]\n")
    + "".join(f"  %v{n} = phi float [%s{n}, %entry], [%t{n}, %step]\n" for n in range(SUMS))
    + _product(0, "top", "even")
    + _product(1, "top", "odd")
    + _product(2, "bottom", "even")
    + _product(3, "bottom", "odd")
    + f"  %k1 = add i32 %k, 1\n  %more = icmp slt i32 %k1, {DEPTH}\n"
    "  br i1 %more, label %step, label %done\ndone:\n"
    + "".join(f"  store float %t{n}, ptr %s{n}.p\n" for n in range(SUMS))
    + "  ret void\n}"
)
"""The definition for the emulator."""
