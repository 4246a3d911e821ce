; The recorder: what the marks of programs call while anybody traces. Any thread, at any time.
;
; recorder.py adds @ticks: time, in nanoseconds or in what the processor counts.

%Record = type { ptr, i64, i64, ptr }        ; mark, room for rows, rows so far (or more), rows
%Row = type { ptr, i64, i64, i64 }           ; program, step, ticks, thread

declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()

; Nanoseconds of CLOCK_MONOTONIC, which is the clock of perf_counter_ns.
define i64 @nanoseconds() {
begin:
  %time = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; Both times of one moment: the pair in which they are closest together.
define void @both(ptr %pair) {
begin:
  br label %next

next:
  %iteration = phi i64 [ 0, %begin ], [ %iteration.after, %again ]
  %least = phi i64 [ -1, %begin ], [ %least.after, %again ]
  %before = call i64 @ticks()
  %now = call i64 @nanoseconds()
  %after = call i64 @ticks()
  %took = sub i64 %after, %before
  %better = icmp ult i64 %took, %least
  br i1 %better, label %keep, label %again

keep:
  %half = lshr i64 %took, 1
  %middle = add i64 %before, %half
  store i64 %middle, ptr %pair
  %now.at = getelementptr i64, ptr %pair, i64 1
  store i64 %now, ptr %now.at
  br label %again

again:
  %least.after = phi i64 [ %least, %next ], [ %took, %keep ]
  %iteration.after = add i64 %iteration, 1
  %done = icmp eq i64 %iteration.after, 16
  br i1 %done, label %end, label %next

end:
  ret void
}

define void @mark(ptr %record, i64 %step, ptr %program) {
begin:
  %count.at = getelementptr %Record, ptr %record, i64 0, i32 2
  %index = atomicrmw add ptr %count.at, i64 1 monotonic
  %room.at = getelementptr %Record, ptr %record, i64 0, i32 1
  %room = load i64, ptr %room.at
  %fits = icmp ult i64 %index, %room
  br i1 %fits, label %write, label %done

write:
  %now = call i64 @ticks()
  %thread = call i64 @pthread_self()
  %rows.at = getelementptr %Record, ptr %record, i64 0, i32 3
  %rows = load ptr, ptr %rows.at
  %row = getelementptr %Row, ptr %rows, i64 %index
  store ptr %program, ptr %row
  %step.at = getelementptr %Row, ptr %row, i64 0, i32 1
  store i64 %step, ptr %step.at
  %now.at = getelementptr %Row, ptr %row, i64 0, i32 2
  store i64 %now, ptr %now.at
  %thread.at = getelementptr %Row, ptr %row, i64 0, i32 3
  store i64 %thread, ptr %thread.at
  br label %done

done:
  ret void
}
