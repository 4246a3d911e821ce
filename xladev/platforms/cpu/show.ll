; Reading: a result as a NumPy array, without a copy.

; The method Buffer.show of blocks: a DeviceArray's value as a read-only NumPy array over its block;
; the array remembers it. None if the long way must be gone.
define ptr @show(ptr %self, ptr %array) {
begin:
  %is.array = call i1 @is_a(ptr %array, ptr @device_array)
  br i1 %is.array, label %state, label %long.way

state:
  %event = call ptr @field(ptr %array, ptr @array_event)
  %defined = load ptr, ptr @defined
  %computed = icmp eq ptr %event, %defined
  %sizes = call ptr @field(ptr %array, ptr @array_sizes)
  %empty = load ptr, ptr @empty_tuple
  %static = icmp eq ptr %sizes, %empty
  %live = call i1 @is_live(ptr %array)
  %ready = and i1 %computed, %static
  %good = and i1 %ready, %live
  br i1 %good, label %view, label %long.way

view:
  %shown = call i1 @is_shown(ptr %array)
  br i1 %shown, label %long.way, label %buffer

buffer:
  %block = call ptr @field(ptr %array, ptr @array_buffer)
  %is.block = call i1 @is_a(ptr %block, ptr @block)
  br i1 %is.block, label %in.block, label %long.way

in.block:
  %made.at = getelementptr %Block, ptr %block, i64 0, i32 7
  %made = load i64, ptr %made.at
  %account = call ptr @account(ptr %block)
  %generation.at = getelementptr %Account, ptr %account, i64 0, i32 4
  %generation = load i64, ptr %generation.at
  %there = icmp eq i64 %made, %generation
  %result.at = getelementptr %Block, ptr %block, i64 0, i32 6
  %result = load ptr, ptr %result.at
  %own.at = getelementptr %Result, ptr %result, i64 0, i32 1
  %own = load ptr, ptr %own.at
  %shape = call ptr @field(ptr %array, ptr @array_shape)
  %same = icmp eq ptr %own, %shape
  %dtype.at = getelementptr %Result, ptr %result, i64 0, i32 4
  %dtype = load ptr, ptr %dtype.at
  %plain = icmp ne ptr %dtype, null
  %fits = and i1 %there, %same
  %fine = and i1 %fits, %plain
  br i1 %fine, label %make, label %long.way

make:
  %value = call ptr @ndarray_over(ptr %block, ptr %result)
  %none = icmp eq ptr %value, null
  br i1 %none, label %fail, label %remember

remember:
  %reference = call ptr @PyWeakref_NewRef(ptr %value, ptr null)
  %no.reference = icmp eq ptr %reference, null
  br i1 %no.reference, label %undo, label %look.again

look.again:                                  ; collecting garbage may have run anything
  %still = call i1 @is_live(ptr %array)
  %now.shown = call i1 @is_shown(ptr %array)
  %unshown = xor i1 %now.shown, true
  %unchanged = and i1 %still, %unshown
  br i1 %unchanged, label %done, label %too.late

done:
  %old = call ptr @field(ptr %array, ptr @array_view)
  %offset = load i64, ptr @array_view
  %at = getelementptr i8, ptr %array, i64 %offset
  store ptr %reference, ptr %at
  call void @Py_DecRef(ptr %old)
  ret ptr %value

too.late:
  call void @Py_DecRef(ptr %reference)
  call void @Py_DecRef(ptr %value)
  br label %long.way

undo:
  call void @Py_DecRef(ptr %value)
  br label %fail

fail:
  ret ptr null

long.way:
  %nothing = load ptr, ptr @None
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
}

; True unless a DeviceArray was deleted or donated.
define internal i1 @is_live(ptr %array) alwaysinline {
  %why = call ptr @field(ptr %array, ptr @array_why)
  %empty = load ptr, ptr @empty_text
  %live = icmp eq ptr %why, %empty
  ret i1 %live
}

; True if a DeviceArray refers to a NumPy array that is alive, or to what it should not.
define internal i1 @is_shown(ptr %array) {
begin:
  %view = call ptr @field(ptr %array, ptr @array_view)
  %none = load ptr, ptr @None
  %never = icmp eq ptr %view, %none
  br i1 %never, label %no, label %look

look:
  %is.reference = call i1 @is_a(ptr %view, ptr @weak_reference)
  br i1 %is.reference, label %ask, label %yes

ask:
  %object = call ptr @PyWeakref_GetObject(ptr %view)
  %gone = icmp eq ptr %object, %none
  br i1 %gone, label %no, label %yes

yes:
  ret i1 true

no:
  ret i1 false
}

; A read-only NumPy array over a block, which it keeps; null with an error set if there is no room.
define internal ptr @ndarray_over(ptr %block, ptr %result) {
begin:
  %type = load ptr, ptr @ndarray
  %dtype.at = getelementptr %Result, ptr %result, i64 0, i32 4
  %dtype = load ptr, ptr %dtype.at
  %rank.at = getelementptr %Result, ptr %result, i64 0, i32 5
  %rank.long = load i64, ptr %rank.at
  %rank = trunc i64 %rank.long to i32
  %dims.at = getelementptr %Result, ptr %result, i64 0, i32 6
  %dims = load ptr, ptr %dims.at
  %data.at = getelementptr %Block, ptr %block, i64 0, i32 9
  %data = load ptr, ptr %data.at
  call void @Py_IncRef(ptr %dtype)
  %new = load ptr, ptr @new_ndarray
  %value = call ptr %new(ptr %type, ptr %dtype, i32 %rank, ptr %dims, ptr null, ptr %data, i32 0, ptr null)
  %none = icmp eq ptr %value, null
  br i1 %none, label %fail, label %keep

keep:
  call void @Py_IncRef(ptr %block)
  %set = load ptr, ptr @set_base
  %status = call i32 %set(ptr %value, ptr %block)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %done, label %undo

undo:
  call void @Py_DecRef(ptr %value)
  br label %fail

done:
  ret ptr %value

fail:
  ret ptr null
}
