; Looks for interruptions from loops of native code: interruption.py fills the globals, and
; `xladev/instrument/interruption.py` says what ends a loop.
;
; A loop counts down what its iterations are estimated to take. When nothing is left it calls
; `xladev_poll`, which looks at the clock, and now and then asks Python, with the interpreter lock.

%State = type { i64, i64, i64, i64, ptr, i64 }
        ; when to ask next (0: never was here), signals that Python has answered, when it was here
        ; last, how many nanoseconds to hand out, in a fork the word that ends it, and whether this
        ; is a thread that helps with one, which does not ask Python

@signals = global ptr null                   ; the number of SIGINTs that came
@look = global ptr null                      ; functions of Python, and its False and True, which
                                             ; look returns when it has answered the signals so far
@keep = global ptr null
@false = global ptr null
@true = global ptr null
@handler = global ptr null                   ; of SIGINT before ours

declare i64 @llvm.smin.i64(i64, i64)
declare i32 @clock_gettime(i32, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare void @PyErr_Clear()
declare i32 @PyException_SetTraceback(ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @Py_DecRef(ptr)                 ; passes over nulls

; Counts a SIGINT, and lets whoever handled it before handle it.
define void @on_signal(i32 %number, ptr %information, ptr %context) {
  %word = load ptr, ptr @signals
  %before = atomicrmw add ptr %word, i64 1 seq_cst
  %next = load ptr, ptr @handler
  call void %next(i32 %number, ptr %information, ptr %context)
  ret void
}

; Nanoseconds of the coarse clock, which is right to a few milliseconds, and cheap.
define internal i64 @now() {
  %time = alloca { i64, i64 }
  store { i64, i64 } zeroinitializer, ptr %time
  %failed = call i32 @clock_gettime(i32 6, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; Nanoseconds until the next call. Or the least number there is: the program ends, and Python keeps
; why, for this thread.
define i64 @xladev_poll(ptr %state) {
begin:
  %stop.at = getelementptr %State, ptr %state, i64 0, i32 4
  %stop = load ptr, ptr %stop.at
  %forked = icmp ne ptr %stop, null
  br i1 %forked, label %fork, label %clock

fork:
  %stopped = load atomic i64, ptr %stop monotonic, align 8
  %over = icmp ne i64 %stopped, 0
  br i1 %over, label %leave, label %who

who:
  %helps.at = getelementptr %State, ptr %state, i64 0, i32 5
  %helps = load i64, ptr %helps.at
  %helping = icmp ne i64 %helps, 0
  br i1 %helping, label %help, label %clock

help:
  ret i64 50000                              ; a look costs it two loads

clock:
  %seen.at = getelementptr %State, ptr %state, i64 0, i32 1
  %last.at = getelementptr %State, ptr %state, i64 0, i32 2
  %given.at = getelementptr %State, ptr %state, i64 0, i32 3
  %now = call i64 @now()
  %due = load i64, ptr %state
  %first = icmp eq i64 %due, 0
  br i1 %first, label %open, label %pace

open:
  %word = load ptr, ptr @signals
  %seen.first = load atomic i64, ptr %word monotonic, align 8
  store i64 %seen.first, ptr %seen.at
  br label %plan

; Iterations that take much longer than was estimated come here more often, until they do not.
pace:
  %last = load i64, ptr %last.at
  %took = sub i64 %now, %last
  %given = load i64, ptr %given.at
  %less = ashr i64 %given, 2
  %twice = shl i64 %given, 1
  %more = or i64 %twice, 1
  %most = call i64 @llvm.smin.i64(i64 %more, i64 1000000)
  %quick = icmp slt i64 %took, 5000000
  %kept = select i1 %quick, i64 %most, i64 %given
  %slow = icmp sgt i64 %took, 25000000
  %next.given = select i1 %slow, i64 %less, i64 %kept
  store i64 %next.given, ptr %given.at
  %early = icmp slt i64 %now, %due
  br i1 %early, label %go.on, label %ask

ask:
  %ended = call i1 @ask(ptr %seen.at)
  br i1 %ended, label %end, label %plan

plan:
  %next = add i64 %now, 100000000
  store i64 %next, ptr %state
  br label %go.on

go.on:
  store i64 %now, ptr %last.at
  %left = load i64, ptr %given.at
  ret i64 %left

end:
  br i1 %forked, label %stop.all, label %leave

stop.all:
  store atomic i64 1, ptr %stop monotonic, align 8
  br label %leave

leave:
  ret i64 -9223372036854775808
}

; What Python says: whether to end.
define internal i1 @ask(ptr %seen.at) {
begin:
  %word = load ptr, ptr @signals
  %count = load atomic i64, ptr %word monotonic, align 8
  %seen = load i64, ptr %seen.at
  %has.come = icmp ne i64 %count, %seen
  %lock = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %good = icmp eq i32 %raised, 0
  br i1 %good, label %look, label %fetch

look:
  %function = load ptr, ptr @look
  %yes = load ptr, ptr @true
  %no = load ptr, ptr @false
  %which = select i1 %has.come, ptr %yes, ptr %no
  %made = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr %which, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %fetch, label %go.on

go.on:
  %heard = icmp eq ptr %made, %yes
  %seen.next = select i1 %heard, i64 %count, i64 %seen
  store i64 %seen.next, ptr %seen.at
  call void @Py_DecRef(ptr %made)
  call void @PyGILState_Release(i32 %lock)
  ret i1 false

fetch:
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  call void @PyErr_NormalizeException(ptr %type, ptr %value, ptr %trace)
  %error = load ptr, ptr %value
  %where = load ptr, ptr %trace
  %unknown = icmp eq ptr %where, null
  br i1 %unknown, label %hand.over, label %place

place:
  %placed = call i32 @PyException_SetTraceback(ptr %error, ptr %where)
  br label %hand.over

hand.over:
  %keep = load ptr, ptr @keep
  %kept = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %keep, ptr %error, ptr null)
  call void @PyErr_Clear()
  call void @Py_DecRef(ptr %kept)
  %kind = load ptr, ptr %type
  call void @Py_DecRef(ptr %kind)
  call void @Py_DecRef(ptr %error)
  call void @Py_DecRef(ptr %where)
  call void @PyGILState_Release(i32 %lock)
  ret i1 true
}
