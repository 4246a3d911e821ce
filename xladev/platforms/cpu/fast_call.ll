; The fast call: from arguments of a Python call to the kernels of a program, and back with arrays.
;
; fast_call.py fills globals and tables, and says what every field means to Python. All of this runs
; with the interpreter lock, which therefore guards the free blocks and the counts; only the
; program itself runs without. Nothing here raises for what it does not like: the fast call returns
; None, and the caller goes the long way, which does the same and finds words for it.

%Object = type { i64, ptr }                  ; count of references, type
%Parameter = type { ptr, ptr, i64, ptr }     ; dtype (null: no NumPy arrays), shape, rank, dims
%Result = type { ptr, ptr, i64, ptr, ptr, i64, ptr }
        ; bucket, shape, kind in the accounting, its live count, and as for parameters dtype, rank, dims
%Alias = type { i64, i64, i64 }              ; result, parameter, bytes
%Plan = type { i64, ptr, i64, ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64 }
        ; 0 count and 1 table of parameters, 2, 3 of results, 4, 5 of aliases, 6 scratch (a Result,
        ; or null), 7 entry, 8 accounting, 9 device, 10 clear, 11 account, 12 whether a result comes bare
%Bucket = type { ptr, i64, ptr, ptr }        ; first free block, bytes of each, next bucket, pool
%Pool = type { ptr, i64, i64, ptr }          ; account, bytes kept, most of those, first bucket
%Block = type { i64, ptr, ptr, ptr, ptr, i64, ptr, i64, ptr, ptr }
        ; 0, 1 as Object, 2 next free, 3 bucket, 4 accounting, 5 kind, 6 its Result, 7 generation,
        ; 8 the DeviceMemory made of it or null, 9 where the memory is: 128 bytes after the block
%Account = type { i64, i64, i64, i64, i64, i64 }
        ; bytes in use, their peak, live blocks, blocks ever, generation, bytes in use elsewhere

@None = global ptr null
@empty_text = global ptr null
@empty_tuple = global ptr null
@defined = global ptr null                   ; the event of values that are there
@watchers = global ptr null
@poison = global ptr null                    ; the word that says to fill blocks: see poison.py
@rethrow = global ptr null                   ; raises what a signal's handler raised in a loop
@trace = global ptr null                     ; the word that marks go by: see trace_points.py
@ndarray = global ptr null                   ; types, compared by identity
@int = global ptr null
@device_array = global ptr null
@weak_reference = global ptr null
@allocated_buffer = global ptr null
@device_memory = global ptr null
@host_memory = global ptr null
@block = global ptr null
@new_ndarray = global ptr null               ; PyArray_NewFromDescr, PyArray_SetBaseObject
@set_base = global ptr null
@ndarray_data = global i64 0                 ; offsets of fields
@ndarray_rank = global i64 0
@ndarray_dims = global i64 0
@ndarray_dtype = global i64 0
@ndarray_flags = global i64 0
@dtype_order = global i64 0
@dtype_number = global i64 0
@array_buffer = global i64 0
@array_device = global i64 0
@array_event = global i64 0
@array_shape = global i64 0
@array_sizes = global i64 0
@array_view = global i64 0
@array_why = global i64 0
@buffer_generation = global i64 0
@buffer_memory = global i64 0
@memory_handle = global i64 0
@memory_offset = global i64 0
@host_address = global i64 0

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)                 ; both pass over nulls
declare void @Py_DecRef(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyWeakref_NewRef(ptr, ptr)
declare ptr @PyWeakref_GetObject(ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; -- Results --------------------------------------------------------------------------------------

; Blocks for all results; if there is no memory, false and nulls from there on.
define internal i1 @take_all(ptr %plan, i64 %count, ptr %blocks) {
begin:
  %bytes = mul i64 %count, 8
  call void @llvm.memset.p0.i64(ptr %blocks, i8 0, i64 %bytes, i1 false)
  %results.at = getelementptr %Plan, ptr %plan, i64 0, i32 3
  %results = load ptr, ptr %results.at
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %taken ]
  %end = icmp eq i64 %index, %count
  br i1 %end, label %yes, label %one

one:
  %result = getelementptr %Result, ptr %results, i64 %index
  %block = call ptr @take(ptr %result, ptr %plan)
  %none = icmp eq ptr %block, null
  br i1 %none, label %no, label %taken

taken:
  %at = getelementptr ptr, ptr %blocks, i64 %index
  store ptr %block, ptr %at
  %after = add i64 %index, 1
  br label %next

yes:
  ret i1 true

no:
  ret i1 false
}

; A DeviceArray over a block, whose reference it takes; null with an error set if there is no room.
define internal ptr @array(ptr %plan, ptr %block, i64 %index) {
begin:
  %type = load ptr, ptr @device_array
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %done, label %fill

fill:
  %buffer.offset = load i64, ptr @array_buffer
  %buffer.at = getelementptr i8, ptr %made, i64 %buffer.offset
  store ptr %block, ptr %buffer.at
  %results.at = getelementptr %Plan, ptr %plan, i64 0, i32 3
  %results = load ptr, ptr %results.at
  %shape.at = getelementptr %Result, ptr %results, i64 %index, i32 1
  %shape = load ptr, ptr %shape.at
  call void @set(ptr %made, ptr @array_shape, ptr %shape)
  %device.at = getelementptr %Plan, ptr %plan, i64 0, i32 9
  %device = load ptr, ptr %device.at
  call void @set(ptr %made, ptr @array_device, ptr %device)
  %event = load ptr, ptr @defined
  call void @set(ptr %made, ptr @array_event, ptr %event)
  %sizes = load ptr, ptr @empty_tuple
  call void @set(ptr %made, ptr @array_sizes, ptr %sizes)
  %view = load ptr, ptr @None
  call void @set(ptr %made, ptr @array_view, ptr %view)
  %why = load ptr, ptr @empty_text
  call void @set(ptr %made, ptr @array_why, ptr %why)
  br label %done

done:
  ret ptr %made
}

define internal void @set(ptr %object, ptr %offset.at, ptr %value) alwaysinline {
  call void @Py_IncRef(ptr %value)
  %offset = load i64, ptr %offset.at
  %at = getelementptr i8, ptr %object, i64 %offset
  store ptr %value, ptr %at
  ret void
}

; A tuple of DeviceArrays over the blocks, whose references it takes, even if it fails. Nothing is
; allocated after the tuple: allocating may run anything, and nobody must see it half made.
define internal ptr @arrays(ptr %plan, i64 %count, ptr %blocks) {
begin:
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %made ]
  %end = icmp eq i64 %index, %count
  br i1 %end, label %whole, label %one

one:
  %block.at = getelementptr ptr, ptr %blocks, i64 %index
  %block = load ptr, ptr %block.at
  %array = call ptr @array(ptr %plan, ptr %block, i64 %index)
  %none = icmp eq ptr %array, null
  br i1 %none, label %drop, label %made

made:
  store ptr %array, ptr %block.at
  %after = add i64 %index, 1
  br label %next

whole:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %drop, label %fill

fill:
  %at = phi i64 [ 0, %whole ], [ %at.after, %set ]
  %full = icmp eq i64 %at, %count
  br i1 %full, label %done, label %set

set:
  %item.at = getelementptr ptr, ptr %blocks, i64 %at
  %item = load ptr, ptr %item.at
  %ok = call i32 @PyTuple_SetItem(ptr %tuple, i64 %at, ptr %item)
  %at.after = add i64 %at, 1
  br label %fill

drop:
  call void @hold(ptr %blocks, i64 %count, i1 true)
  ret ptr null

done:
  ret ptr %tuple
}

; -- The fast call --------------------------------------------------------------------------------

; Without donation, a result that takes the place of an argument begins as a copy of it.
define internal void @copy_aliased(ptr %plan, ptr %table, ptr %results) {
begin:
  %count.at = getelementptr %Plan, ptr %plan, i64 0, i32 4
  %count = load i64, ptr %count.at
  %aliases.at = getelementptr %Plan, ptr %plan, i64 0, i32 5
  %aliases = load ptr, ptr %aliases.at
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %one ]
  %end = icmp eq i64 %index, %count
  br i1 %end, label %done, label %one

one:
  %alias = getelementptr %Alias, ptr %aliases, i64 %index
  %result = load i64, ptr %alias
  %parameter.at = getelementptr %Alias, ptr %alias, i64 0, i32 1
  %parameter = load i64, ptr %parameter.at
  %nbytes.at = getelementptr %Alias, ptr %alias, i64 0, i32 2
  %nbytes = load i64, ptr %nbytes.at
  %to.at = getelementptr ptr, ptr %results, i64 %result
  %to = load ptr, ptr %to.at
  %from.at = getelementptr ptr, ptr %table, i64 %parameter
  %from = load ptr, ptr %from.at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %nbytes, i1 false)
  store ptr %to, ptr %from.at
  %after = add i64 %index, 1
  br label %next

done:
  ret void
}

; Where the memory of each of some blocks is.
define internal void @places(ptr %blocks, i64 %count, ptr %table) {
begin:
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %one ]
  %end = icmp eq i64 %index, %count
  br i1 %end, label %done, label %one

one:
  %at = getelementptr ptr, ptr %blocks, i64 %index
  %block = load ptr, ptr %at
  %data.at = getelementptr %Block, ptr %block, i64 0, i32 9
  %data = load ptr, ptr %data.at
  %place = getelementptr ptr, ptr %table, i64 %index
  store ptr %data, ptr %place
  %after = add i64 %index, 1
  br label %next

done:
  ret void
}

; 0 if the program ran well. Nothing is left in the owners, scratch or not.
define internal i32 @run(ptr %plan, ptr %table, i64 %count, ptr %owners, ptr %blocks, i64 %results) #0 {
begin:
  %scratch.place = alloca ptr
  store ptr null, ptr %scratch.place
  %places = alloca ptr, i64 %results
  %scratch.at = getelementptr %Plan, ptr %plan, i64 0, i32 6
  %scratch = load ptr, ptr %scratch.at
  %wanted = icmp ne ptr %scratch, null
  br i1 %wanted, label %take, label %launch

take:
  %block = call ptr @take(ptr %scratch, ptr %plan)
  %none = icmp eq ptr %block, null
  br i1 %none, label %fail, label %taken

taken:
  store ptr %block, ptr %scratch.place
  %data.at = getelementptr %Block, ptr %block, i64 0, i32 9
  %data = load ptr, ptr %data.at
  br label %launch

launch:
  %memory = phi ptr [ null, %begin ], [ %data, %taken ]
  call void @places(ptr %blocks, i64 %results, ptr %places)
  call void @hold(ptr %owners, i64 %count, i1 false)
  %entry.at = getelementptr %Plan, ptr %plan, i64 0, i32 7
  %entry = load ptr, ptr %entry.at
  %thread = call ptr @PyEval_SaveThread()
  call void @copy_aliased(ptr %plan, ptr %table, ptr %places)
  %status = call i32 %entry(ptr null, ptr %table, ptr %places, ptr %memory)
  call void @PyEval_RestoreThread(ptr %thread)
  call void @hold(ptr %owners, i64 %count, i1 true)
  call void @hold(ptr %scratch.place, i64 1, i1 true)
  ret i32 %status

fail:
  ret i32 1
}

; Tells whoever traces how many bytes are in use.
define internal void @note_memory(ptr %plan, ptr %record) {
begin:
  %account.at = getelementptr %Plan, ptr %plan, i64 0, i32 11
  %account = load ptr, ptr %account.at
  %own = load i64, ptr %account
  %elsewhere.at = getelementptr %Account, ptr %account, i64 0, i32 5
  %elsewhere = load i64, ptr %elsewhere.at
  %nbytes = add i64 %own, %elsewhere
  %step = sub i64 -16, %nbytes
  %mark = load ptr, ptr %record
  call void %mark(ptr %record, i64 %step, ptr %account)
  ret void
}

; The built-in function: self holds the address of a Plan. Returns the results; None if they must
; be had the long way, as if nothing had happened.
define ptr @fast_call(ptr %self, ptr %values, i64 %count) #0 {
begin:
  %plan = call ptr @PyLong_AsVoidPtr(ptr %self)
  %wanted = load i64, ptr %plan
  %complete = icmp eq i64 %wanted, %count
  %clear.at = getelementptr %Plan, ptr %plan, i64 0, i32 10
  %clear.word = load ptr, ptr %clear.at
  %clear = load i64, ptr %clear.word
  %is.clear = icmp eq i64 %clear, 1
  %watchers.word = load ptr, ptr @watchers
  %watchers = load i64, ptr %watchers.word
  %unwatched = icmp eq i64 %watchers, 0
  %free = and i1 %is.clear, %unwatched
  %good = and i1 %complete, %free
  br i1 %good, label %arguments, label %long.way

arguments:
  %table = alloca ptr, i64 %count
  %owners = alloca ptr, i64 %count
  %results.at = getelementptr %Plan, ptr %plan, i64 0, i32 2
  %results = load i64, ptr %results.at
  %fit = call i1 @addresses(ptr %plan, ptr %values, i64 %count, ptr %table, ptr %owners)
  br i1 %fit, label %memory, label %long.way

memory:
  %blocks = alloca ptr, i64 %results
  %room = call i1 @take_all(ptr %plan, i64 %results, ptr %blocks)
  br i1 %room, label %launch, label %give.up

launch:
  %trace.word = load ptr, ptr @trace
  %record = load ptr, ptr %trace.word
  %untraced = icmp eq ptr %record, null
  br i1 %untraced, label %go, label %traced

traced:
  call void @note_memory(ptr %plan, ptr %record)
  br label %go

go:
  %status = call i32 @run(ptr %plan, ptr %table, i64 %count, ptr %owners, ptr %blocks, i64 %results)
  switch i32 %status, label %give.up [
    i32 0, label %wrap
    i32 4, label %interrupted
  ]

interrupted:
  call void @hold(ptr %blocks, i64 %results, i1 true)
  %rethrow = load ptr, ptr @rethrow
  %nothing = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %rethrow, ptr null)
  ret ptr %nothing

wrap:
  %bare.at = getelementptr %Plan, ptr %plan, i64 0, i32 12
  %bare.word = load i64, ptr %bare.at
  %bare = icmp ne i64 %bare.word, 0
  br i1 %bare, label %single, label %several

single:
  %block = load ptr, ptr %blocks
  %array = call ptr @array(ptr %plan, ptr %block, i64 0)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %drop, label %done

drop:
  call void @Py_DecRef(ptr %block)
  ret ptr null

done:
  ret ptr %array

several:
  %tuple = call ptr @arrays(ptr %plan, i64 %results, ptr %blocks)
  ret ptr %tuple

give.up:
  call void @hold(ptr %blocks, i64 %results, i1 true)
  br label %long.way

long.way:
  %none = load ptr, ptr @None
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

; Tables of many arrays touch every page of the stack, and so its end instead of what is behind it.
attributes #0 = { "probe-stack"="inline-asm" }
