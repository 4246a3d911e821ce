; Blocks: memory with a Python object in front, handed out and taken back, and counted.

; A block that is in nobody's hands; null if there is no memory.
define internal ptr @take(ptr %result, ptr %plan) {
begin:
  %bucket = load ptr, ptr %result
  %first = load ptr, ptr %bucket
  %kept = icmp ne ptr %first, null
  br i1 %kept, label %reuse, label %make

reuse:
  %next.at = getelementptr %Block, ptr %first, i64 0, i32 2
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %bucket
  %nbytes.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 1
  %nbytes = load i64, ptr %nbytes.at
  %pool.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 3
  %pool = load ptr, ptr %pool.at
  %sum.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %sum = load i64, ptr %sum.at
  %less = sub i64 %sum, %nbytes
  store i64 %less, ptr %sum.at
  br label %found

make:
  %made = call ptr @make(ptr %bucket)
  %none = icmp eq ptr %made, null
  br i1 %none, label %fail, label %found

found:
  %taken = phi ptr [ %first, %reuse ], [ %made, %make ]
  call void @enter(ptr %taken, ptr %result, ptr %plan)
  %poison.word = load ptr, ptr @poison
  %poisons = load i64, ptr %poison.word
  %clean = icmp eq i64 %poisons, 0
  br i1 %clean, label %done, label %fill

fill:
  %size = call i64 @nbytes(ptr %taken)
  %data.at = getelementptr %Block, ptr %taken, i64 0, i32 9
  %data = load ptr, ptr %data.at
  call void @llvm.memset.p0.i64(ptr %data, i8 -1, i64 %size, i1 false)
  br label %done

done:
  ret ptr %taken

fail:
  ret ptr null
}

; A new block of a bucket; null if there is no memory.
define internal ptr @make(ptr %bucket) noinline {
begin:
  %place = alloca ptr
  %nbytes.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 1
  %nbytes = load i64, ptr %nbytes.at
  %whole = add i64 %nbytes, 128
  %failed = call i32 @posix_memalign(ptr %place, i64 64, i64 %whole)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %fill, label %fail

fill:
  %made = load ptr, ptr %place
  call void @llvm.memset.p0.i64(ptr %made, i8 0, i64 128, i1 false)
  %type = load ptr, ptr @block
  %type.at = getelementptr %Object, ptr %made, i64 0, i32 1
  store ptr %type, ptr %type.at
  %bucket.at = getelementptr %Block, ptr %made, i64 0, i32 3
  store ptr %bucket, ptr %bucket.at
  %data = getelementptr i8, ptr %made, i64 128
  %data.at = getelementptr %Block, ptr %made, i64 0, i32 9
  store ptr %data, ptr %data.at
  %large = icmp uge i64 %nbytes, 4194304
  br i1 %large, label %huge, label %done

huge:                                        ; pages of 2 MB, as NumPy asks for too
  %number = ptrtoint ptr %data to i64
  %up = add i64 %number, 4095
  %start = and i64 %up, -4096
  %page = inttoptr i64 %start to ptr
  %skipped = sub i64 %start, %number
  %rest = sub i64 %nbytes, %skipped
  %advised = call i32 @madvise(ptr %page, i64 %rest, i32 14)
  br label %done

done:
  ret ptr %made

fail:
  ret ptr null
}

; Counts a block as in use, with one reference to it.
define internal void @enter(ptr %taken, ptr %result, ptr %plan) {
  store i64 1, ptr %taken
  %kind.at = getelementptr %Result, ptr %result, i64 0, i32 2
  %kind = load i64, ptr %kind.at
  %own.kind = getelementptr %Block, ptr %taken, i64 0, i32 5
  store i64 %kind, ptr %own.kind
  %live.at = getelementptr %Result, ptr %result, i64 0, i32 3
  %live = load ptr, ptr %live.at
  %own.result = getelementptr %Block, ptr %taken, i64 0, i32 6
  store ptr %result, ptr %own.result
  %accounting.at = getelementptr %Plan, ptr %plan, i64 0, i32 8
  %accounting = load ptr, ptr %accounting.at
  %own.accounting = getelementptr %Block, ptr %taken, i64 0, i32 4
  store ptr %accounting, ptr %own.accounting
  call void @Py_IncRef(ptr %accounting)
  %generation = call i64 @generation(ptr %plan)
  %own.generation = getelementptr %Block, ptr %taken, i64 0, i32 7
  store i64 %generation, ptr %own.generation
  %account = call ptr @account(ptr %taken)
  %nbytes = call i64 @nbytes(ptr %taken)
  %use = load i64, ptr %account
  %use.now = add i64 %use, %nbytes
  store i64 %use.now, ptr %account
  %elsewhere.at = getelementptr %Account, ptr %account, i64 0, i32 5
  %elsewhere = load i64, ptr %elsewhere.at
  %all = add i64 %use.now, %elsewhere
  %peak.at = getelementptr %Account, ptr %account, i64 0, i32 1
  %peak = load i64, ptr %peak.at
  %higher = icmp sgt i64 %all, %peak
  %peak.now = select i1 %higher, i64 %all, i64 %peak
  store i64 %peak.now, ptr %peak.at
  %count.at = getelementptr %Account, ptr %account, i64 0, i32 2
  call void @add(ptr %count.at, i64 1)
  %total.at = getelementptr %Account, ptr %account, i64 0, i32 3
  call void @add(ptr %total.at, i64 1)
  call void @add(ptr %live, i64 1)
  ret void
}

; What Python calls when nobody refers to a block any more: it becomes free.
define void @drop(ptr %block) {
begin:
  %account = call ptr @account(ptr %block)
  %generation.at = getelementptr %Account, ptr %account, i64 0, i32 4
  %generation = load i64, ptr %generation.at
  %own.at = getelementptr %Block, ptr %block, i64 0, i32 7
  %own = load i64, ptr %own.at
  %nbytes = call i64 @nbytes(ptr %block)
  %counted = icmp eq i64 %generation, %own
  br i1 %counted, label %uncount, label %forget

uncount:
  %minus = sub i64 0, %nbytes
  call void @add(ptr %account, i64 %minus)
  %count.at = getelementptr %Account, ptr %account, i64 0, i32 2
  call void @add(ptr %count.at, i64 -1)
  %result.at = getelementptr %Block, ptr %block, i64 0, i32 6
  %result = load ptr, ptr %result.at
  %live.at = getelementptr %Result, ptr %result, i64 0, i32 3
  %live = load ptr, ptr %live.at
  call void @add(ptr %live, i64 -1)
  br label %forget

forget:
  %accounting.at = getelementptr %Block, ptr %block, i64 0, i32 4
  %accounting = load ptr, ptr %accounting.at
  store ptr null, ptr %accounting.at
  %memory.at = getelementptr %Block, ptr %block, i64 0, i32 8
  %memory = load ptr, ptr %memory.at
  store ptr null, ptr %memory.at
  %bucket.at = getelementptr %Block, ptr %block, i64 0, i32 3
  %bucket = load ptr, ptr %bucket.at
  %pool.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 3
  %pool = load ptr, ptr %pool.at
  %limit.at = getelementptr %Pool, ptr %pool, i64 0, i32 2
  %limit = load i64, ptr %limit.at
  %large = icmp sgt i64 %nbytes, %limit        ; a closed pool's limit is -1
  br i1 %large, label %give, label %keep

give:
  call void @free(ptr %block)
  br label %done

keep:
  %kept.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %kept = load i64, ptr %kept.at
  %more = add i64 %kept, %nbytes
  %full = icmp sgt i64 %more, %limit
  br i1 %full, label %flush, label %push

flush:
  call void @flush(ptr %pool)
  br label %push

push:
  call void @add(ptr %kept.at, i64 %nbytes)
  %first = load ptr, ptr %bucket
  %next.at = getelementptr %Block, ptr %block, i64 0, i32 2
  store ptr %first, ptr %next.at
  store ptr %block, ptr %bucket
  br label %done

done:                                        ; last: this may run anything, and free the pool
  call void @Py_DecRef(ptr %memory)
  call void @Py_DecRef(ptr %accounting)
  ret void
}

; Visits nothing. A type that says how it is visited does not become a type of collected objects as
; its base is: those have a header in front, which the collector reads and writes.
define i32 @traverse(ptr %block, ptr %visit, ptr %argument) {
  ret i32 0
}

; Frees all blocks that a pool keeps.
define void @flush(ptr %pool) noinline {
begin:
  %first.at = getelementptr %Pool, ptr %pool, i64 0, i32 3
  %kept.at = getelementptr %Pool, ptr %pool, i64 0, i32 1
  %first = load ptr, ptr %first.at
  br label %buckets

buckets:
  %bucket = phi ptr [ %first, %begin ], [ %following, %emptied ]
  %end = icmp eq ptr %bucket, null
  br i1 %end, label %done, label %blocks

blocks:
  %block = load ptr, ptr %bucket
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %emptied, label %one

one:
  %next.at = getelementptr %Block, ptr %block, i64 0, i32 2
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %bucket
  %nbytes = call i64 @nbytes(ptr %block)
  %minus = sub i64 0, %nbytes
  call void @add(ptr %kept.at, i64 %minus)
  call void @free(ptr %block)
  br label %blocks

emptied:
  %following.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 2
  %following = load ptr, ptr %following.at
  br label %buckets

done:
  ret void
}

define internal i64 @nbytes(ptr %block) alwaysinline {
  %bucket.at = getelementptr %Block, ptr %block, i64 0, i32 3
  %bucket = load ptr, ptr %bucket.at
  %nbytes.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 1
  %nbytes = load i64, ptr %nbytes.at
  ret i64 %nbytes
}

define internal ptr @account(ptr %block) alwaysinline {
  %bucket.at = getelementptr %Block, ptr %block, i64 0, i32 3
  %bucket = load ptr, ptr %bucket.at
  %pool.at = getelementptr %Bucket, ptr %bucket, i64 0, i32 3
  %pool = load ptr, ptr %pool.at
  %account = load ptr, ptr %pool
  ret ptr %account
}

define internal void @add(ptr %word, i64 %number) alwaysinline {
  %old = load i64, ptr %word
  %new = add i64 %old, %number
  store i64 %new, ptr %word
  ret void
}
