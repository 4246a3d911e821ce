; The recorder: what the marks of programs call while anybody traces. Any thread, at any time.

%Record = type { ptr, i64, i64, ptr }        ; mark, room for rows, rows so far (or more), rows
%Row = type { ptr, i64, i64, i64 }           ; program, step, time in nanoseconds, thread

declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()

define void @mark(ptr %record, i64 %step, ptr %program) {
begin:
  %time = alloca { i64, i64 }
  %count.at = getelementptr %Record, ptr %record, i64 0, i32 2
  %index = atomicrmw add ptr %count.at, i64 1 monotonic
  %room.at = getelementptr %Record, ptr %record, i64 0, i32 1
  %room = load i64, ptr %room.at
  %fits = icmp ult i64 %index, %room
  br i1 %fits, label %write, label %done

write:
  %failed = call i32 @clock_gettime(i32 1, ptr %time)      ; CLOCK_MONOTONIC, as perf_counter_ns
  %seconds = load i64, ptr %time
  %rest.at = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
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
