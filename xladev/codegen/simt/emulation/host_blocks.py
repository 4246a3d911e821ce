"""Blocks whose threads wait for each other, on the host: each thread is a coroutine.

Where the thread function waits (`primitives.barrier`, `shuffle_xor`) the rewritten one suspends.
The scheduler runs each sub-group to its next barrier, exchanging what its threads shuffle, and then
all on. Threads that do not come to the same position are a fault: see `DIVERGENCE`.
"""

from __future__ import annotations

import re

from xladev.codegen.simt.primitives import MOST_OFFERED, THREAD

START = "xd.thread.start"
CONTEXT_NBYTES = 512
OFFERS_OFFSET = 192
"""Where in a thread's context is what it offers its sub-group, for one of two turns."""
OFFERS_NBYTES = 4 * MOST_OFFERED
"""Of one turn."""
DIVERGENCE = {
    -2: "a barrier that not all threads reach",
    -3: "a shuffle that not all threads reach",
    -5: "a shuffle with threads of another sub-group",
}
"""Array numbers of faults that are no accesses."""

_WAIT = re.compile(
    r"  call void @xd\.(barrier|exchange|offer)(?:\.x\d+)?\(ptr %simt(?:, i32 ([^)]+))?\)\n"
    r"  br label (%[\w.]+)\n"
)

_PROLOGUE = """entry:
  %coro.id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)
  %coro.nbytes = call i64 @llvm.coro.size.i64()
  %coro.more = add i64 %coro.nbytes, 63
  %coro.whole = and i64 %coro.more, -64
  %coro.memory = call ptr @aligned_alloc(i64 64, i64 %coro.whole)
  %coro.handle = call ptr @llvm.coro.begin(token %coro.id, ptr %coro.memory)
  %coro.state = getelementptr i8, ptr %simt, i64 16
  %coro.parity = getelementptr i8, ptr %simt, i64 20
"""

_EPILOGUE = """
coro.final:
  store i32 3, ptr %coro.state
  %coro.last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %coro.last, label %coro.leave [i8 0, label %coro.trap i8 1, label %coro.cleanup]
coro.trap:
  unreachable
coro.cleanup:
  %coro.frame = call ptr @llvm.coro.free(token %coro.id, ptr %coro.handle)
  call void @free(ptr %coro.frame)
  br label %coro.leave
coro.leave:
  call void @llvm.coro.end(ptr %coro.handle, i1 false, token none)
  ret ptr %coro.handle"""

_SHUFFLE = """
define internal i32 @xd.shuffle(ptr %simt, i32 %bits, i32 %mask) alwaysinline {
  %tid = load i32, ptr %simt
  %crosses = icmp ugt i32 %mask, LAST_LANE
  br i1 %crosses, label %outside, label %inside
outside:
  call void @xd.fault(ptr %simt, i64 -5, i64 0, i64 1)
  br label %inside
inside:
  %lane.mask = and i32 %mask, LAST_LANE
  %peer = xor i32 %tid, %lane.mask
  %apart = sub i32 %peer, %tid
  %wide = sext i32 %apart to i64
  %nbytes = mul i64 %wide, CONTEXT_NBYTES
  %other = getelementptr i8, ptr %simt, i64 %nbytes
  %parity.place = getelementptr i8, ptr %simt, i64 20
  %parity = load i32, ptr %parity.place
  %slots = getelementptr i8, ptr %other, i64 24
  %slot = getelementptr i32, ptr %slots, i32 %parity
  %found = load i32, ptr %slot
  %next = xor i32 %parity, 1
  store i32 %next, ptr %parity.place
  ret i32 %found
}"""

_SHARED = """
define internal ptr @xd.shared(ptr %simt) alwaysinline {
  %place = getelementptr i8, ptr %simt, i64 32
  %shared = load ptr, ptr %place
  ret ptr %shared
}"""


def block_primitives(subgroup: int) -> dict[str, str]:
    """Definitions by name, besides those of threads that never wait, for so many a sub-group."""
    return {"xd.shuffle": _sized(_SHUFFLE, subgroup), "xd.shared": _SHARED}


def _sized(text: str, subgroup: int) -> str:
    """Text for sub-groups of so many threads, a power of two."""
    text = text.replace("CONTEXT_NBYTES", str(CONTEXT_NBYTES))
    text = text.replace("LAST_LANE", str(subgroup - 1)).replace("SUBGROUP", str(subgroup))
    return text.replace("LANE_BITS", str(subgroup.bit_length() - 1))


def as_coroutine(text: str) -> str:
    """A module whose thread function suspends where it waits; its name becomes `START`."""
    begin = text.index(f"define internal void @{THREAD}(")
    end = text.index("\n}", begin)
    body = text[begin:end]
    head, _, rest = body.partition("entry:\n")
    head = head.replace(f"void @{THREAD}(", f"ptr @{START}(").replace(
        "alwaysinline", "presplitcoroutine noinline"
    )
    count = iter(range(1, 1 << 30))
    rest = _WAIT.sub(lambda found: _suspended(found, next(count)), rest)
    rest = rest.replace("  ret void", "  br label %coro.final")
    return text[:begin] + head + _PROLOGUE + rest + _EPILOGUE + text[end:]


def _suspended(found: re.Match[str], number: int) -> str:
    kind, bits, after = found.groups()
    put = ""
    if kind == "exchange":
        put = (
            f"  %wait{number}.parity = load i32, ptr %coro.parity\n"
            f"  %wait{number}.slots = getelementptr i8, ptr %simt, i64 24\n"
            f"  %wait{number}.slot = getelementptr i32, ptr %wait{number}.slots, "
            f"i32 %wait{number}.parity\n"
            f"  store i32 {bits}, ptr %wait{number}.slot\n"
        )
    if kind == "offer":
        put = _offered(bits.split(", i32 "), number)
    state = 1 if kind == "barrier" else 2
    return (
        f"{put}  store i32 {state}, ptr %coro.state\n"
        f"  %wait{number} = call i8 @llvm.coro.suspend(token none, i1 false)\n"
        f"  switch i8 %wait{number}, label %coro.leave "
        f"[i8 0, label {after} i8 1, label %coro.cleanup]\n"
    )


def _offered(words: list[str], number: int) -> str:
    """Lines that put words where the sub-group can read them."""
    own = f"%wait{number}"
    lines = [
        f"  {own}.parity = load i32, ptr %coro.parity",
        f"  {own}.wide = zext i32 {own}.parity to i64",
        f"  {own}.turn = mul i64 {own}.wide, {OFFERS_NBYTES}",
        f"  {own}.at = add i64 {own}.turn, {OFFERS_OFFSET}",
        f"  {own}.slots = getelementptr i8, ptr %simt, i64 {own}.at",
    ]
    for n, word in enumerate(words):
        lines.append(f"  {own}.s{n} = getelementptr i32, ptr {own}.slots, i64 {n}")
        lines.append(f"  store i32 {word}, ptr {own}.s{n}")
    return "\n".join(lines) + "\n"


_SCHEDULER = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare ptr @malloc(i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define internal void @xd.forget.faults(ptr %simt) {
  %place = getelementptr i8, ptr %simt, i64 8
  %fault = load ptr, ptr %place
  store i64 0, ptr %fault
  ret void
}

define internal i64 @xd.count(ptr %contexts, i64 %from, i64 %to, i32 %state) {
entry:
  br label %next
next:
  %t = phi i64 [%from, %entry], [%t1, %next]
  %sum = phi i64 [0, %entry], [%sum1, %next]
  %offset = mul i64 %t, CONTEXT_NBYTES
  %context = getelementptr i8, ptr %contexts, i64 %offset
  %place = getelementptr i8, ptr %context, i64 16
  %found = load i32, ptr %place
  %same = icmp eq i32 %found, %state
  %one = zext i1 %same to i64
  %sum1 = add i64 %sum, %one
  %t1 = add i64 %t, 1
  %more = icmp slt i64 %t1, %to
  br i1 %more, label %next, label %done
done:
  ret i64 %sum1
}

define internal void @xd.resume(ptr %handles, i64 %from, i64 %to) {
entry:
  br label %next
next:
  %t = phi i64 [%from, %entry], [%t1, %next]
  %place = getelementptr ptr, ptr %handles, i64 %t
  %handle = load ptr, ptr %place
  call void @llvm.coro.resume(ptr %handle)
  %t1 = add i64 %t, 1
  %more = icmp slt i64 %t1, %to
  br i1 %more, label %next, label %done
done:
  ret void
}

define internal void @xd.run_block(ptr %contexts, ptr %handles, i64 %threads,
  i64 %step, i64 %first) noinline {
entry:
  %shadow.place = getelementptr i8, ptr %contexts, i64 40
  %shadow = load ptr, ptr %shadow.place
  %threads.more = add i64 %threads, LAST_LANE
  %subgroups = lshr i64 %threads.more, LANE_BITS
  br label %round
round:
  %r = phi i64 [0, %entry], [%r1, %on]
  %started = icmp eq i64 %r, 0
  %shift = add i64 %first, %r
  br label %turn
turn:
  %t = phi i64 [0, %round], [%t1, %subgroup.done]
  %stepped = mul i64 %t, %step
  %shifted = add i64 %stepped, %shift
  %n = urem i64 %shifted, %subgroups
  %w = shl i64 %n, LANE_BITS
  %w32 = add i64 %w, SUBGROUP
  %is.last = icmp slt i64 %threads, %w32
  %end = select i1 %is.last, i64 %threads, i64 %w32
  %size = sub i64 %end, %w
  br i1 %started, label %subgroup, label %go
go:
  call void @xd.resume(ptr %handles, i64 %w, i64 %end)
  br label %subgroup
subgroup:
  %waiting = call i64 @xd.count(ptr %contexts, i64 %w, i64 %end, i32 2)
  %none = icmp eq i64 %waiting, 0
  br i1 %none, label %subgroup.done, label %exchange
exchange:
  %whole = icmp eq i64 %waiting, %size
  br i1 %whole, label %exchanged, label %split.subgroup
exchanged:
  call void @xd.resume(ptr %handles, i64 %w, i64 %end)
  br label %subgroup
subgroup.done:
  %t1 = add i64 %t, 1
  %more = icmp ult i64 %t1, %subgroups
  br i1 %more, label %turn, label %all
all:
  %done = call i64 @xd.count(ptr %contexts, i64 0, i64 %threads, i32 3)
  %finished = icmp eq i64 %done, %threads
  br i1 %finished, label %leave, label %barrier
barrier:
  %at = call i64 @xd.count(ptr %contexts, i64 0, i64 %threads, i32 1)
  %together = icmp eq i64 %at, %threads
  br i1 %together, label %on, label %split.block
on:
  call void @xd.next.epoch(ptr %shadow)
  %r1 = add i64 %r, 1
  br label %round
split.subgroup:
  call void @xd.forget.faults(ptr %contexts)
  call void @xd.fault(ptr %contexts, i64 -3, i64 %w, i64 %waiting)
  br label %leave
split.block:
  call void @xd.forget.faults(ptr %contexts)
  call void @xd.fault(ptr %contexts, i64 -2, i64 0, i64 %at)
  br label %leave
leave:
  br label %free
free:
  %f = phi i64 [0, %leave], [%f1, %free]
  %place = getelementptr ptr, ptr %handles, i64 %f
  %handle = load ptr, ptr %place
  call void @llvm.coro.destroy(ptr %handle)
  %f1 = add i64 %f, 1
  %left = icmp slt i64 %f1, %threads
  br i1 %left, label %free, label %out
out:
  ret void
}
"""


def scheduler(subgroup: int) -> str:
    """What runs one block whose threads have been started: context and handle of each are given."""
    return _sized(_SCHEDULER, subgroup)
