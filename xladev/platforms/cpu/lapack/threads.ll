; One thread for each call of OpenBLAS, while any program is among its calls of LAPACK.
;
; How many threads OpenBLAS takes is one number of the whole process. The first program that comes
; keeps it and makes it 1; the last one that goes puts it back, unless somebody has changed it since.

@get = global ptr null                       ; int get(void), or null where LAPACK has no threads
@set = global ptr null                       ; void set(int)
@lock = global i32 0
@inside = global i64 0                       ; programs among their calls
@kept = global i32 0                         ; the number before the first one came

declare i32 @sched_yield()

define internal void @acquire() {
begin:
  br label %try
try:
  %pair = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %done = extractvalue { i32, i1 } %pair, 1
  br i1 %done, label %end, label %wait
wait:
  %ignored = call i32 @sched_yield()
  br label %try
end:
  ret void
}

define internal void @release() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

define void @xladev_lapack.begin() {
begin:
  %get = load ptr, ptr @get
  %none = icmp eq ptr %get, null
  br i1 %none, label %end, label %enter
enter:
  call void @acquire()
  %before = load i64, ptr @inside
  %after = add i64 %before, 1
  store i64 %after, ptr @inside
  %first = icmp eq i64 %before, 0
  br i1 %first, label %keep, label %leave
keep:
  %number = call i32 %get()
  store i32 %number, ptr @kept
  %several = icmp sgt i32 %number, 1
  br i1 %several, label %change, label %leave
change:
  %set = load ptr, ptr @set
  call void %set(i32 1)
  br label %leave
leave:
  call void @release()
  br label %end
end:
  ret void
}

define void @xladev_lapack.end() {
begin:
  %get = load ptr, ptr @get
  %none = icmp eq ptr %get, null
  br i1 %none, label %end, label %enter
enter:
  call void @acquire()
  %before = load i64, ptr @inside
  %after = sub i64 %before, 1
  store i64 %after, ptr @inside
  %last = icmp eq i64 %after, 0
  br i1 %last, label %look, label %leave
look:
  %kept = load i32, ptr @kept
  %several = icmp sgt i32 %kept, 1
  br i1 %several, label %ask, label %leave
ask:
  %number = call i32 %get()
  %same = icmp eq i32 %number, 1
  br i1 %same, label %change, label %leave
change:
  %set = load ptr, ptr @set
  call void %set(i32 %kept)
  br label %leave
leave:
  call void @release()
  br label %end
end:
  ret void
}
