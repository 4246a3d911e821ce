; Forks: parts of a program that run at once, in the calling thread and in those of the pool.
;
; Whoever comes takes one part after the other until none is left. The caller then waits for parts
; that others have begun, and looks for interruptions meanwhile, as its own loops do: only it may ask
; Python. Loops in other threads look at a word that the caller's loops, and its wait, set.

%Job = type { ptr, ptr, i64, i64, i32, i64, ptr, i64 }
        ; part, frame, parts, next one, parts that have yet to end, whether to end, the caller's
        ; state, what is left of its time
%State = type { i64, i64, i64, i64, ptr, i64 }     ; as in interruption.ll

@parallel = global ptr null                  ; xladev_parallel of pool.ll, xladev_poll of
@poll = global ptr null                      ; interruption.ll: fork.py fills them


; Calls part(frame, number, state, left) for each number below the count; what is left of the caller's
; time, or the least number there is if the program ends.
define i64 @xladev_fork(ptr %part, ptr %frame, i64 %count, i64 %limit, ptr %state, i64 %left) {
begin:
  %job = alloca %Job
  store ptr %part, ptr %job
  %frame.at = getelementptr %Job, ptr %job, i64 0, i32 1
  store ptr %frame, ptr %frame.at
  %count.at = getelementptr %Job, ptr %job, i64 0, i32 2
  store i64 %count, ptr %count.at
  %next.at = getelementptr %Job, ptr %job, i64 0, i32 3
  store i64 0, ptr %next.at
  %parts = trunc i64 %count to i32
  %missing.at = getelementptr %Job, ptr %job, i64 0, i32 4
  store i32 %parts, ptr %missing.at
  %stop.at = getelementptr %Job, ptr %job, i64 0, i32 5
  store i64 0, ptr %stop.at
  %state.at = getelementptr %Job, ptr %job, i64 0, i32 6
  store ptr %state, ptr %state.at
  %left.at = getelementptr %Job, ptr %job, i64 0, i32 7
  store i64 %left, ptr %left.at
  %outer.at = getelementptr %State, ptr %state, i64 0, i32 4
  %outer = load ptr, ptr %outer.at
  store ptr %stop.at, ptr %outer.at
  %parallel = load ptr, ptr @parallel
  call void %parallel(ptr @take, ptr %job, ptr %job, i64 %count, i64 1, i64 64, i64 %limit)
  store ptr %outer, ptr %outer.at
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  %rest = load i64, ptr %left.at
  %result = select i1 %stopped, i64 -9223372036854775808, i64 %rest
  ret i64 %result
}

; Takes parts until there are none. The pool gives each thread memory of its own, and the caller the
; job itself, by which it knows that it is the caller.
define internal void @take(ptr %job, ptr %private, i64 %first, i64 %last) {
begin:
  %own = alloca %State
  %part = load ptr, ptr %job
  %frame.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %frame = load ptr, ptr %frame.at
  %count.at = getelementptr %Job, ptr %job, i64 0, i32 2
  %count = load i64, ptr %count.at
  %next.at = getelementptr %Job, ptr %job, i64 0, i32 3
  %missing.at = getelementptr %Job, ptr %job, i64 0, i32 4
  %stop.at = getelementptr %Job, ptr %job, i64 0, i32 5
  %state.at = getelementptr %Job, ptr %job, i64 0, i32 6
  %left.at = getelementptr %Job, ptr %job, i64 0, i32 7
  %is.caller = icmp eq ptr %private, %job
  br label %next

next:
  %number = atomicrmw add ptr %next.at, i64 1 seq_cst
  %there = icmp slt i64 %number, %count
  br i1 %there, label %look, label %none

look:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %count.it, label %run

run:
  br i1 %is.caller, label %here, label %there.too

here:
  %state = load ptr, ptr %state.at
  %left = load i64, ptr %left.at
  %rest = call i64 %part(ptr %frame, i64 %number, ptr %state, i64 %left)
  store i64 %rest, ptr %left.at
  br label %count.it

there.too:
  store %State zeroinitializer, ptr %own
  %own.stop.at = getelementptr %State, ptr %own, i64 0, i32 4
  store ptr %stop.at, ptr %own.stop.at
  %helps.at = getelementptr %State, ptr %own, i64 0, i32 5
  store i64 1, ptr %helps.at
  %rest.too = call i64 %part(ptr %frame, i64 %number, ptr %own, i64 50000)
  br label %count.it

count.it:
  %missing = atomicrmw sub ptr %missing.at, i32 1 seq_cst
  %last.one = icmp eq i32 %missing, 1
  %waits = xor i1 %is.caller, true
  %wakes = and i1 %last.one, %waits
  br i1 %wakes, label %tell, label %next

tell:
  call void @wake(ptr %missing.at)
  br label %next

none:
  br i1 %is.caller, label %wait, label %done

wait:
  %state.here = load ptr, ptr %state.at
  call void @wait(ptr %missing.at, ptr %state.here)
  br label %done

done:
  ret void
}

; Waits until no part is missing: for some 20 to 50 us with open eyes, then asleep. Looks for
; interruptions after each millisecond of sleep.
define internal void @wait(ptr %missing.at, ptr %state) {
begin:
  br label %look

look:
  %turn = phi i64 [ 0, %begin ], [ %turn.next, %again ]
  %turn.next = add i64 %turn, 1
  %missing = load atomic i32, ptr %missing.at seq_cst, align 4
  %over = icmp eq i32 %missing, 0
  br i1 %over, label %done, label %wait

wait:
  call void @relax()
  %patient = icmp ugt i64 %turn, 2000
  br i1 %patient, label %rest, label %again

rest:
  %slept = call i64 @sleep(ptr %missing.at, i32 %missing)
  %due = icmp ne i64 %slept, 0
  br i1 %due, label %poll, label %again

poll:
  %function = load ptr, ptr @poll
  %left = call i64 %function(ptr %state)
  br label %again

again:
  br label %look

done:
  ret void
}

