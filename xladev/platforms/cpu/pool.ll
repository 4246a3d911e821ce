; The pool: threads that help whoever has work in many parts.
;
; A caller claims a job, describes its work there, opens it, and works on it until no part is left.
; Threads that are awake join; the caller waits for those alone that have joined, never for one that
; has yet to wake up. So nothing depends on there being threads: without any, the caller does it all.
; A thread that works on a part may be the caller of another job. Nothing here knows Python.

%Job = type { i32, i32, i32, i32, i32, i32, i64, i64, ptr, ptr, i64, i64, i64, [6 x i64] }
        ; 0 taken: a caller has it, 1 open: threads may join, 2 guests: threads that look at it or
        ; have joined, 3 awaited: the caller sleeps until those have gone, 4 seats: how many more
        ; may join, 5 unused, 6 number of units, 7 units in a part, 8 function, 9 frame, 10 bytes of
        ; memory that each thread wants for its own, 11 (another cache line) first unit that nobody
        ; has taken, 12 how the caller rounds
%Pool = type { i32, i32, i32, i32, [64 x i8], [64 x i8], [64 x i8], [32 x %Job] }
        ; 0 process, 1 threads started, 2 threads asleep, 3 epoch: changes with each job opened,
        ; 4 mutex, 5 condition: there is work, 6 condition: guests have gone, 7 jobs
%Own = type { ptr, i64 }                     ; memory of a thread, its bytes

@current = internal global ptr null          ; the pool of this process or of one that forked it
@trace = global ptr null                     ; the word that marks go by, or null: see trace_points.py
@threads = global i64 1                      ; how many work on a job that does not say

declare i32 @getpid()
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; -- Work -----------------------------------------------------------------------------------------

; Calls function(frame, private, begin, end) until parts of all units 0 to count have been taken, in
; several threads if that pays. Private memory is this thread's; every other one has its own, of the
; same size. 0 threads are as many as the process may have.
define void @xladev_parallel(ptr %function, ptr %frame, ptr %private, i64 %count, i64 %grain, i64 %nbytes, i64 %limit) {
begin:
  %given = icmp ne i64 %limit, 0
  %usual = load i64, ptr @threads
  %most = select i1 %given, i64 %limit, i64 %usual
  %parts = sdiv i64 %count, %grain
  %threads = call i64 @llvm.smin.i64(i64 %most, i64 %parts)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %look, label %alone

look:
  %pool = call ptr @pool()
  %no.pool = icmp eq ptr %pool, null
  br i1 %no.pool, label %alone, label %find

find:
  %job = call ptr @claim(ptr %pool)
  %no.job = icmp eq ptr %job, null
  br i1 %no.job, label %alone, label %share

share:
  %helpers = sub i64 %threads, 1
  call void @start(ptr %pool, i64 %helpers)
  %shares = mul i64 %threads, 8
  %even = sdiv i64 %count, %shares
  %step = call i64 @llvm.smax.i64(i64 %grain, i64 %even)
  %count.at = getelementptr %Job, ptr %job, i64 0, i32 6
  store i64 %count, ptr %count.at
  %step.at = getelementptr %Job, ptr %job, i64 0, i32 7
  store i64 %step, ptr %step.at
  %function.at = getelementptr %Job, ptr %job, i64 0, i32 8
  store ptr %function, ptr %function.at
  %frame.at = getelementptr %Job, ptr %job, i64 0, i32 9
  store ptr %frame, ptr %frame.at
  %nbytes.at = getelementptr %Job, ptr %job, i64 0, i32 10
  store i64 %nbytes, ptr %nbytes.at
  %next.at = getelementptr %Job, ptr %job, i64 0, i32 11
  store i64 0, ptr %next.at
  %rounding = call i64 @rounding()
  %rounding.at = getelementptr %Job, ptr %job, i64 0, i32 12
  store i64 %rounding, ptr %rounding.at
  %seats = trunc i64 %helpers to i32
  %seats.at = getelementptr %Job, ptr %job, i64 0, i32 4
  store i32 %seats, ptr %seats.at
  %open.at = getelementptr %Job, ptr %job, i64 0, i32 1
  store atomic i32 1, ptr %open.at seq_cst, align 4
  call void @wake(ptr %pool, i64 %helpers)
  call void @run(ptr %job, ptr %private)
  store atomic i32 0, ptr %open.at seq_cst, align 4
  call void @await(ptr %pool, ptr %job)
  store atomic i32 0, ptr %job release, align 4
  ret void

alone:
  call void %function(ptr %frame, ptr %private, i64 0, i64 %count)
  ret void
}

; Takes parts of a job until there are none.
define internal void @run(ptr %job, ptr %private) {
begin:
  %count.at = getelementptr %Job, ptr %job, i64 0, i32 6
  %count = load i64, ptr %count.at
  %step.at = getelementptr %Job, ptr %job, i64 0, i32 7
  %step = load i64, ptr %step.at
  %function.at = getelementptr %Job, ptr %job, i64 0, i32 8
  %function = load ptr, ptr %function.at
  %frame.at = getelementptr %Job, ptr %job, i64 0, i32 9
  %frame = load ptr, ptr %frame.at
  %next.at = getelementptr %Job, ptr %job, i64 0, i32 11
  br label %take

take:
  %first = atomicrmw add ptr %next.at, i64 %step seq_cst
  %left = icmp slt i64 %first, %count
  br i1 %left, label %part, label %done

part:
  %after = add i64 %first, %step
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %count)
  call void %function(ptr %frame, ptr %private, i64 %first, i64 %end)
  br label %take

done:
  ret void
}

; -- Callers --------------------------------------------------------------------------------------

; The pool of this process, made when it is first wanted; null if there is no memory. Threads do not
; live on in a forked process, and locks may be in any state there, so that it gets a pool of its own.
define internal ptr @pool() {
begin:
  %process = call i32 @getpid()
  br label %look

look:
  %kept = load atomic ptr, ptr @current acquire, align 8
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %check

check:
  %owner = load i32, ptr %kept
  %own = icmp eq i32 %owner, %process
  br i1 %own, label %found, label %make

found:
  ret ptr %kept

make:
  %place = alloca ptr
  %size.end = getelementptr %Pool, ptr null, i64 1
  %size = ptrtoint ptr %size.end to i64
  %failed = call i32 @posix_memalign(ptr %place, i64 128, i64 %size)
  %room = icmp eq i32 %failed, 0
  br i1 %room, label %fill, label %no.room

fill:                                        ; zeros are a free mutex and conditions nobody waits for
  %made = load ptr, ptr %place
  call void @llvm.memset.p0.i64(ptr %made, i8 0, i64 %size, i1 false)
  store i32 %process, ptr %made
  %exchange = cmpxchg ptr @current, ptr %kept, ptr %made seq_cst seq_cst
  %ours = extractvalue { ptr, i1 } %exchange, 1
  br i1 %ours, label %new, label %late

new:
  ret ptr %made

late:
  call void @free(ptr %made)
  br label %look

no.room:
  ret ptr null
}

; A job that nobody has; null if there are none left.
define internal ptr @claim(ptr %pool) {
begin:
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %busy ]
  %end = icmp eq i64 %index, 32
  br i1 %end, label %none, label %one

one:
  %job = getelementptr %Pool, ptr %pool, i64 0, i32 7, i64 %index
  %exchange = cmpxchg ptr %job, i32 0, i32 1 seq_cst seq_cst
  %got = extractvalue { i32, i1 } %exchange, 1
  br i1 %got, label %found, label %busy

busy:
  %after = add i64 %index, 1
  br label %next

found:
  ret ptr %job

none:
  ret ptr null
}

; Starts threads until there are as many as wanted, 255 at most, or the system has no more. They
; take no signals: those are for threads that wait for them.
define internal void @start(ptr %pool, i64 %wanted) {
begin:
  %most = call i64 @llvm.smin.i64(i64 %wanted, i64 255)
  %enough = trunc i64 %most to i32
  %started.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %started = load atomic i32, ptr %started.at acquire, align 4
  %few = icmp slt i32 %started, %enough
  br i1 %few, label %prepare, label %done

prepare:
  %all = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %thread = alloca i64
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %masked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %before)
  %mutex = getelementptr %Pool, ptr %pool, i64 0, i32 4
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %next

next:
  %number = load atomic i32, ptr %started.at acquire, align 4
  %more = icmp slt i32 %number, %enough
  br i1 %more, label %one, label %ready

one:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %pool)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %count, label %ready

count:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  %after = add i32 %number, 1
  store atomic i32 %after, ptr %started.at release, align 4
  br label %next

ready:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  %unmasked = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  br label %done

done:
  ret void
}

; Says that a job is open, to threads that are looking and to as many that sleep as are wanted.
define internal void @wake(ptr %pool, i64 %wanted) {
begin:
  %epoch.at = getelementptr %Pool, ptr %pool, i64 0, i32 3
  %epoch = atomicrmw add ptr %epoch.at, i32 1 seq_cst
  %asleep.at = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %asleep = load atomic i32, ptr %asleep.at seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %lock, label %done

lock:
  %mutex = getelementptr %Pool, ptr %pool, i64 0, i32 4
  %work = getelementptr %Pool, ptr %pool, i64 0, i32 5
  %sleepers = sext i32 %asleep to i64
  %calls = call i64 @llvm.smin.i64(i64 %sleepers, i64 %wanted)
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %next

next:
  %number = phi i64 [ 0, %lock ], [ %after, %next ]
  %signalled = call i32 @pthread_cond_signal(ptr %work)
  %after = add i64 %number, 1
  %more = icmp slt i64 %after, %calls
  br i1 %more, label %next, label %unlock

unlock:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; Waits until no thread looks at a closed job: at most for the parts that they have begun.
define internal void @await(ptr %pool, ptr %job) {
begin:
  %guests.at = getelementptr %Job, ptr %job, i64 0, i32 2
  br label %spin

spin:
  %iteration = phi i32 [ 0, %begin ], [ %iteration.after, %again ]
  %guests = load atomic i32, ptr %guests.at seq_cst, align 4
  %gone = icmp eq i32 %guests, 0
  br i1 %gone, label %done, label %again

again:
  call void @relax()
  %iteration.after = add i32 %iteration, 1
  %long = icmp sgt i32 %iteration.after, 2000
  br i1 %long, label %lock, label %spin

lock:
  %mutex = getelementptr %Pool, ptr %pool, i64 0, i32 4
  %left = getelementptr %Pool, ptr %pool, i64 0, i32 6
  %awaited.at = getelementptr %Job, ptr %job, i64 0, i32 3
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i32 1, ptr %awaited.at seq_cst, align 4
  br label %check

check:
  %still = load atomic i32, ptr %guests.at seq_cst, align 4
  %empty = icmp eq i32 %still, 0
  br i1 %empty, label %unlock, label %wait

wait:
  %waited = call i32 @pthread_cond_wait(ptr %left, ptr %mutex)
  br label %check

unlock:
  store atomic i32 0, ptr %awaited.at seq_cst, align 4
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret void
}

; -- Threads --------------------------------------------------------------------------------------

; What a thread does for as long as the process lives: looks for jobs, for a while, then sleeps.
define internal ptr @worker(ptr %pool) {
begin:
  %own = alloca %Own, align 16
  call void @llvm.memset.p0.i64(ptr %own, i8 0, i64 16, i1 false)
  %epoch.at = getelementptr %Pool, ptr %pool, i64 0, i32 3
  br label %look

look:
  %epoch = load atomic i32, ptr %epoch.at seq_cst, align 4
  %worked = call i1 @look(ptr %pool, ptr %own)
  br i1 %worked, label %look, label %spin

spin:
  %iteration = phi i32 [ 0, %look ], [ %iteration.after, %again ]
  %now = load atomic i32, ptr %epoch.at seq_cst, align 4
  %same = icmp eq i32 %now, %epoch
  br i1 %same, label %again, label %look

again:
  call void @relax()
  %iteration.after = add i32 %iteration, 1
  %long = icmp sgt i32 %iteration.after, 1000
  br i1 %long, label %rest, label %spin

rest:
  call void @sleep(ptr %pool, i32 %epoch)
  br label %look
}

; Sleeps unless a job was opened since the epoch.
define internal void @sleep(ptr %pool, i32 %epoch) {
begin:
  %mutex = getelementptr %Pool, ptr %pool, i64 0, i32 4
  %work = getelementptr %Pool, ptr %pool, i64 0, i32 5
  %asleep.at = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %epoch.at = getelementptr %Pool, ptr %pool, i64 0, i32 3
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %before = atomicrmw add ptr %asleep.at, i32 1 seq_cst
  %now = load atomic i32, ptr %epoch.at seq_cst, align 4
  %same = icmp eq i32 %now, %epoch
  br i1 %same, label %wait, label %done

wait:
  %waited = call i32 @pthread_cond_wait(ptr %work, ptr %mutex)
  br label %done

done:
  %after = atomicrmw sub ptr %asleep.at, i32 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; Joins all open jobs, one after the other; true if there were any.
define internal i1 @look(ptr %pool, ptr %own) {
begin:
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %seen ]
  %found = phi i1 [ false, %begin ], [ %found.now, %seen ]
  %end = icmp eq i64 %index, 32
  br i1 %end, label %done, label %one

one:
  %job = getelementptr %Pool, ptr %pool, i64 0, i32 7, i64 %index
  %open.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %open = load atomic i32, ptr %open.at seq_cst, align 4
  %is.open = icmp eq i32 %open, 1
  br i1 %is.open, label %enter, label %seen

enter:
  %joined = call i1 @join(ptr %pool, ptr %job, ptr %own)
  br label %seen

seen:
  %here = phi i1 [ false, %one ], [ %joined, %enter ]
  %found.now = or i1 %found, %here
  %after = add i64 %index, 1
  br label %next

done:
  ret i1 %found
}

; Works on a job if it is open, has parts and a seat left, and there is memory; true if so. Once it
; counts as a guest and has seen the job open, the caller waits, and all that the job says holds.
define internal i1 @join(ptr %pool, ptr %job, ptr %own) {
begin:
  %guests.at = getelementptr %Job, ptr %job, i64 0, i32 2
  %guests = atomicrmw add ptr %guests.at, i32 1 seq_cst
  %open.at = getelementptr %Job, ptr %job, i64 0, i32 1
  %open = load atomic i32, ptr %open.at seq_cst, align 4
  %is.open = icmp eq i32 %open, 1
  br i1 %is.open, label %parts, label %leave

parts:
  %next.at = getelementptr %Job, ptr %job, i64 0, i32 11
  %next = load atomic i64, ptr %next.at seq_cst, align 8
  %count.at = getelementptr %Job, ptr %job, i64 0, i32 6
  %count = load i64, ptr %count.at
  %left = icmp slt i64 %next, %count
  br i1 %left, label %seat, label %leave

seat:
  %seats.at = getelementptr %Job, ptr %job, i64 0, i32 4
  %seats = atomicrmw sub ptr %seats.at, i32 1 seq_cst
  %free = icmp sgt i32 %seats, 0
  br i1 %free, label %memory, label %give.back

give.back:
  %again = atomicrmw add ptr %seats.at, i32 1 seq_cst
  br label %leave

memory:
  %nbytes.at = getelementptr %Job, ptr %job, i64 0, i32 10
  %nbytes = load i64, ptr %nbytes.at
  %room = call i1 @hold(ptr %own, i64 %nbytes)
  br i1 %room, label %work, label %give.back

work:
  %rounding.at = getelementptr %Job, ptr %job, i64 0, i32 12
  %rounding = load i64, ptr %rounding.at
  call void @round(i64 %rounding)
  %private = load ptr, ptr %own
  call void @note(i64 -4)
  call void @run(ptr %job, ptr %private)
  call void @note(i64 -5)
  br label %leave

leave:
  %worked = phi i1 [ false, %begin ], [ false, %parts ], [ false, %give.back ], [ true, %work ]
  %before = atomicrmw sub ptr %guests.at, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  %awaited.at = getelementptr %Job, ptr %job, i64 0, i32 3
  %awaited = load atomic i32, ptr %awaited.at seq_cst, align 4
  %sleeps = icmp eq i32 %awaited, 1
  %tell = and i1 %last, %sleeps
  br i1 %tell, label %lock, label %done

lock:
  %mutex = getelementptr %Pool, ptr %pool, i64 0, i32 4
  %gone = getelementptr %Pool, ptr %pool, i64 0, i32 6
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %told = call i32 @pthread_cond_broadcast(ptr %gone)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done

done:
  ret i1 %worked
}

; Tells whoever records a timeline that a thread begins to help, or has helped.
define internal void @note(i64 %step) {
begin:
  %word = load ptr, ptr @trace
  %none = icmp eq ptr %word, null
  br i1 %none, label %done, label %look

look:
  %record = load ptr, ptr %word
  %off = icmp eq ptr %record, null
  br i1 %off, label %done, label %tell

tell:
  %mark = load ptr, ptr %record
  call void %mark(ptr %record, i64 %step, ptr null)
  br label %done

done:
  ret void
}

; Makes a thread's own memory at least so large; false if there is none.
define internal i1 @hold(ptr %own, i64 %nbytes) {
begin:
  %nbytes.at = getelementptr %Own, ptr %own, i64 0, i32 1
  %have = load i64, ptr %nbytes.at
  %fits = icmp sge i64 %have, %nbytes
  br i1 %fits, label %yes, label %grow

grow:
  %old = load ptr, ptr %own
  call void @free(ptr %old)
  call void @llvm.memset.p0.i64(ptr %own, i8 0, i64 16, i1 false)
  %place = alloca ptr
  %failed = call i32 @posix_memalign(ptr %place, i64 64, i64 %nbytes)
  %room = icmp eq i32 %failed, 0
  br i1 %room, label %take, label %no

take:
  %made = load ptr, ptr %place
  store ptr %made, ptr %own
  store i64 %nbytes, ptr %nbytes.at
  br label %yes

yes:
  ret i1 true

no:
  ret i1 false
}
