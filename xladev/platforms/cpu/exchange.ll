; Where the devices of one execution meet for a collective: native code, without Python.
;
; Whoever comes last does the work of all, from the others' memory into the others' memory, while
; they sleep; then all go on. So a device waits once for each collective, and no data is copied on the
; way. Of a slot, the first word has the number of the meeting in its upper half, and in its lower one
; how many have come: both change together, so that nobody can leave a meeting that is complete.

%Block = type { i32, i32, i64, i64 }
        ; 0 failure: 1 the execution was given up, 2 somebody waited too long, 1 unused, 2
        ; microseconds to wait at most, 3 where somebody waited too long; slots follow, each of which
        ; is { i32 state, i32 devices of the group, ptr frames... }

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; 0: it is done; 1: it was given up; 2: this device is in no group.
; context is { ptr block, i64 number of this device, ptr mark }; groups is { i64 offset of the first slot, i64
; bytes of a slot, i64 devices of a group, { i64 group or -1, i64 rank } of each device }.
define i32 @xladev_exchange(ptr %context, ptr %groups, ptr %frame, ptr %combine) {
begin:
  %block = load ptr, ptr %context
  %device.at = getelementptr i64, ptr %context, i64 1
  %device = load i64, ptr %device.at
  %pair = shl i64 %device, 1
  %group.n = add i64 %pair, 3
  %group.at = getelementptr i64, ptr %groups, i64 %group.n
  %group = load i64, ptr %group.at
  %rank.n = add i64 %pair, 4
  %rank.at = getelementptr i64, ptr %groups, i64 %rank.n
  %rank = load i64, ptr %rank.at
  %is.alone = icmp slt i64 %group, 0
  br i1 %is.alone, label %alone, label %look

alone:
  ret i32 2

look:
  %failure = load atomic i32, ptr %block acquire, align 8
  %is.over = icmp ne i32 %failure, 0
  br i1 %is.over, label %over, label %come

over:
  ret i32 1

come:
  %first = load i64, ptr %groups
  %nbytes.at = getelementptr i64, ptr %groups, i64 1
  %nbytes = load i64, ptr %nbytes.at
  %size.at = getelementptr i64, ptr %groups, i64 2
  %size.wide = load i64, ptr %size.at
  %size = trunc i64 %size.wide to i32
  %behind = mul i64 %group, %nbytes
  %offset = add i64 %first, %behind
  %slot = getelementptr i8, ptr %block, i64 %offset
  %size.kept = getelementptr i8, ptr %slot, i64 4
  store atomic i32 %size, ptr %size.kept monotonic, align 4
  %frames = getelementptr i8, ptr %slot, i64 8
  %mine = getelementptr ptr, ptr %frames, i64 %rank
  store ptr %frame, ptr %mine
  %before = atomicrmw add ptr %slot, i32 1 acq_rel
  %meeting = and i32 %before, -65536
  %others = and i32 %before, 65535
  %here = add i32 %others, 1
  %is.last = icmp eq i32 %here, %size
  br i1 %is.last, label %work, label %wait

work:
  call void %combine(ptr %frames)
  %frames.nbytes = shl i64 %size.wide, 3
  call void @llvm.memset.p0.i64(ptr %frames, i8 0, i64 %frames.nbytes, i1 false)
  %next = add i32 %meeting, 65536
  store atomic i32 %next, ptr %slot seq_cst, align 8
  call void @wake(ptr %slot)
  ret i32 0

wait:
  %waited = phi i64 [ 0, %come ], [ %longer, %slept ]
  %state = load atomic i32, ptr %slot acquire, align 8
  %now = and i32 %state, -65536
  %is.same = icmp eq i32 %now, %meeting
  br i1 %is.same, label %ask, label %done

done:
  ret i32 0

ask:
  %failure.now = load atomic i32, ptr %block acquire, align 8
  %is.failed = icmp ne i32 %failure.now, 0
  %most.at = getelementptr %Block, ptr %block, i64 0, i32 2
  %most = load i64, ptr %most.at
  %is.late = icmp sgt i64 %waited, %most
  %is.lost = or i1 %is.failed, %is.late
  br i1 %is.lost, label %give.up, label %sleep

sleep:
  %slice = call i64 @sleep(ptr %slot, i32 %state)
  br label %slept

slept:
  %more = phi i64 [ %slice, %sleep ], [ 0, %give.up ], [ 0, %leave ]
  %longer = add i64 %waited, %more
  br label %wait

give.up:
  %count = and i32 %state, 65535
  %is.full = icmp eq i32 %count, %size
  br i1 %is.full, label %slept, label %leave

leave:
  %fewer = sub i32 %state, 1
  %swap = cmpxchg ptr %slot, i32 %state, i32 %fewer acq_rel acquire
  %left = extractvalue { i32, i1 } %swap, 1
  br i1 %left, label %say, label %slept

say:
  br i1 %is.failed, label %lost, label %late

late:
  %place = getelementptr %Block, ptr %block, i64 0, i32 3
  %claim = cmpxchg ptr %block, i32 0, i32 2 seq_cst seq_cst
  %is.first = extractvalue { i32, i1 } %claim, 1
  br i1 %is.first, label %tell, label %lost

tell:
  store i64 %offset, ptr %place
  br label %lost

lost:
  ret i32 1
}
