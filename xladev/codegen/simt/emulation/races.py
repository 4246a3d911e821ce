"""Races on shared memory: who read and wrote each byte since the last barrier.

The emulator keeps a shadow of each block's shared memory: the number of barriers so far, then for
each byte its last writer, and the first and the last reader since a barrier. Two threads that touch
a byte between two barriers, one of them writing, are a fault, even if they are of one sub-group: a
shuffle orders no memory. Of a launch, the first and the last `CHECKED` blocks are looked at: all
others do the same, and it takes time. They have no shadow.
"""

from __future__ import annotations

RACE = -4
"""Array number of a fault that is a race: its offset is the byte, its length the other thread."""
SHADOW_OFFSET = 40
"""Where a thread's context has the address of its block's shadow."""
CALL = "xd.shadow"
CHECKED = 4
"""Blocks at either end of a grid that have a shadow."""


def shadow_nbytes(shared_nbytes: int) -> int:
    """Memory of the shadow of some shared memory; zeros at first."""
    return 8 + 24 * shared_nbytes


TEXT = f"""
declare ptr @calloc(i64, i64)

define internal void @xd.next.epoch(ptr %shadow) alwaysinline {{
  %none = icmp eq ptr %shadow, null
  br i1 %none, label %done, label %count
count:
  %epoch = load i64, ptr %shadow
  %more = add i64 %epoch, 1
  store i64 %more, ptr %shadow
  br label %done
done:
  ret void
}}

define internal i1 @xd.conflicts(i64 %mine, i64 %other) alwaysinline {{
  %apart = xor i64 %mine, %other
  %epochs = lshr i64 %apart, 32
  %now = icmp eq i64 %epochs, 0
  %threads = and i64 %apart, 65535
  %foreign = icmp ne i64 %threads, 0
  %both = and i1 %now, %foreign
  ret i1 %both
}}

define internal void @{CALL}(ptr %simt, ptr %address, ptr %base, i64 %n, i64 %size, i1 %writes) \
alwaysinline {{
  %place = getelementptr i8, ptr %simt, i64 {SHADOW_OFFSET}
  %shadow = load ptr, ptr %place
  %none = icmp eq ptr %shadow, null
  br i1 %none, label %done, label %look
look:
  call void @xd.note.access(ptr %simt, ptr %address, ptr %base, i64 %n, i64 %size, i1 %writes, \
ptr %shadow)
  br label %done
done:
  ret void
}}

define internal void @xd.note.access(ptr %simt, ptr %address, ptr %base, i64 %n, i64 %size, \
i1 %writes, ptr %shadow) noinline {{
entry:
  %a = ptrtoint ptr %address to i64
  %b = ptrtoint ptr %base to i64
  %offset = sub i64 %a, %b
  %last = sub i64 %size, %n
  %inside = icmp ule i64 %offset, %last
  br i1 %inside, label %begin, label %done
begin:
  %epoch = load i64, ptr %shadow
  %tid = load i32, ptr %simt
  %number = zext i32 %tid to i64
  %own = add i64 %number, 1
  %high = shl i64 %epoch, 32
  %mine = or i64 %high, %own
  br label %next
next:
  %k = phi i64 [0, %begin], [%k1, %step]
  %at = add i64 %offset, %k
  %distance = mul i64 %at, 24
  %past = add i64 %distance, 8
  %writer.place = getelementptr i8, ptr %shadow, i64 %past
  %first.place = getelementptr i8, ptr %writer.place, i64 8
  %last.place = getelementptr i8, ptr %writer.place, i64 16
  %writer = load i64, ptr %writer.place
  %first = load i64, ptr %first.place
  %latest = load i64, ptr %last.place
  %with.writer = call i1 @xd.conflicts(i64 %mine, i64 %writer)
  %with.first = call i1 @xd.conflicts(i64 %mine, i64 %first)
  %with.last = call i1 @xd.conflicts(i64 %mine, i64 %latest)
  %with.reader = or i1 %with.first, %with.last
  %overwrites = and i1 %with.reader, %writes
  %bad = or i1 %with.writer, %overwrites
  br i1 %bad, label %race, label %note
note:
  br i1 %writes, label %wrote, label %read
wrote:
  store i64 %mine, ptr %writer.place
  br label %step
read:
  %first.epoch = lshr i64 %first, 32
  %since = icmp eq i64 %first.epoch, %epoch
  %kept = select i1 %since, i64 %first, i64 %mine
  store i64 %kept, ptr %first.place
  store i64 %mine, ptr %last.place
  br label %step
step:
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %n
  br i1 %more, label %next, label %done
race:
  %reader = select i1 %with.first, i64 %first, i64 %latest
  %who = select i1 %with.writer, i64 %writer, i64 %reader
  %whose = and i64 %who, 65535
  %other = sub i64 %whose, 1
  call void @xd.fault(ptr %simt, i64 {RACE}, i64 %at, i64 %other)
  br label %done
done:
  ret void
}}
"""
"""Definitions for modules whose threads wait for each other."""
