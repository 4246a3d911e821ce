; Arguments: the address of each, or null where the long way must be gone.

; How often the device was reset.
define internal i64 @generation(ptr %plan) alwaysinline {
  %account.at = getelementptr %Plan, ptr %plan, i64 0, i32 11
  %account = load ptr, ptr %account.at
  %generation.at = getelementptr %Account, ptr %account, i64 0, i32 4
  %generation = load i64, ptr %generation.at
  ret i64 %generation
}

define internal ptr @field(ptr %object, ptr %offset.at) alwaysinline {
  %offset = load i64, ptr %offset.at
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}

define internal i1 @is_a(ptr %object, ptr %type.at) alwaysinline {
begin:
  %there = icmp ne ptr %object, null
  br i1 %there, label %look, label %no

look:
  %wanted = load ptr, ptr %type.at
  %at = getelementptr %Object, ptr %object, i64 0, i32 1
  %type = load ptr, ptr %at
  %same = icmp eq ptr %type, %wanted
  ret i1 %same

no:
  ret i1 false
}

; A NumPy array of the parameter's dtype and dims, contiguous, at a multiple of 16 bytes.
define internal ptr @numpy_address(ptr %array, ptr %parameter) {
begin:
  %wanted = load ptr, ptr %parameter
  %dtype = call ptr @field(ptr %array, ptr @ndarray_dtype)
  %same.dtype = icmp eq ptr %dtype, %wanted
  br i1 %same.dtype, label %ranks, label %equals

equals:                                      ; unpickled arrays have dtypes of their own
  %any = icmp ne ptr %wanted, null
  br i1 %any, label %orders, label %no

orders:
  %order.offset = load i64, ptr @dtype_order
  %order.at = getelementptr i8, ptr %dtype, i64 %order.offset
  %order = load i8, ptr %order.at
  %wanted.order.at = getelementptr i8, ptr %wanted, i64 %order.offset
  %wanted.order = load i8, ptr %wanted.order.at
  %same.order = icmp eq i8 %order, %wanted.order
  %number.offset = load i64, ptr @dtype_number
  %number.at = getelementptr i8, ptr %dtype, i64 %number.offset
  %dtype.number = load i32, ptr %number.at
  %wanted.number.at = getelementptr i8, ptr %wanted, i64 %number.offset
  %wanted.number = load i32, ptr %wanted.number.at
  %same.number = icmp eq i32 %dtype.number, %wanted.number
  %equal = and i1 %same.order, %same.number
  br i1 %equal, label %ranks, label %no

ranks:
  %rank.offset = load i64, ptr @ndarray_rank
  %rank.at = getelementptr i8, ptr %array, i64 %rank.offset
  %rank.short = load i32, ptr %rank.at
  %rank = sext i32 %rank.short to i64
  %wanted.rank.at = getelementptr %Parameter, ptr %parameter, i64 0, i32 2
  %wanted.rank = load i64, ptr %wanted.rank.at
  %same.rank = icmp eq i64 %rank, %wanted.rank
  %flags.offset = load i64, ptr @ndarray_flags
  %flags.at = getelementptr i8, ptr %array, i64 %flags.offset
  %flags = load i32, ptr %flags.at
  %contiguous = trunc i32 %flags to i1
  %flat = and i1 %same.rank, %contiguous
  br i1 %flat, label %sizes, label %no

sizes:
  %dims = call ptr @field(ptr %array, ptr @ndarray_dims)
  %wanted.dims.at = getelementptr %Parameter, ptr %parameter, i64 0, i32 3
  %wanted.dims = load ptr, ptr %wanted.dims.at
  br label %next

next:
  %index = phi i64 [ 0, %sizes ], [ %after, %compare ]
  %end = icmp eq i64 %index, %rank
  br i1 %end, label %place, label %compare

compare:
  %dim.at = getelementptr i64, ptr %dims, i64 %index
  %dim = load i64, ptr %dim.at
  %wanted.dim.at = getelementptr i64, ptr %wanted.dims, i64 %index
  %wanted.dim = load i64, ptr %wanted.dim.at
  %after = add i64 %index, 1
  %same.dim = icmp eq i64 %dim, %wanted.dim
  br i1 %same.dim, label %next, label %no

place:
  %data = call ptr @field(ptr %array, ptr @ndarray_data)
  %number = ptrtoint ptr %data to i64
  %low = and i64 %number, 15
  %aligned = icmp eq i64 %low, 0
  %address = select i1 %aligned, ptr %data, ptr null
  ret ptr %address

no:
  ret ptr null
}

; A DeviceArray of the device, in the parameter's shape, computed and not deleted; its buffer is
; stored, as it must be kept meanwhile.
define internal ptr @device_address(ptr %array, ptr %parameter, ptr %plan, ptr %owner.at) {
begin:
  %shape = call ptr @field(ptr %array, ptr @array_shape)
  %wanted.at = getelementptr %Parameter, ptr %parameter, i64 0, i32 1
  %wanted = load ptr, ptr %wanted.at
  %same.shape = icmp eq ptr %shape, %wanted
  %device = call ptr @field(ptr %array, ptr @array_device)
  %own.at = getelementptr %Plan, ptr %plan, i64 0, i32 9
  %own = load ptr, ptr %own.at
  %same.device = icmp eq ptr %device, %own
  %event = call ptr @field(ptr %array, ptr @array_event)
  %defined = load ptr, ptr @defined
  %computed = icmp eq ptr %event, %defined
  %why = call ptr @field(ptr %array, ptr @array_why)
  %empty = load ptr, ptr @empty_text
  %live = icmp eq ptr %why, %empty
  %fits = and i1 %same.shape, %same.device
  %usable = and i1 %computed, %live
  %good = and i1 %fits, %usable
  br i1 %good, label %look, label %no

look:
  %buffer = call ptr @field(ptr %array, ptr @array_buffer)
  store ptr %buffer, ptr %owner.at
  %generation = call i64 @generation(ptr %plan)
  %is.block = call i1 @is_a(ptr %buffer, ptr @block)
  br i1 %is.block, label %block.own, label %other

block.own:
  %made.at = getelementptr %Block, ptr %buffer, i64 0, i32 7
  %made = load i64, ptr %made.at
  %there = icmp eq i64 %made, %generation
  %data.at = getelementptr %Block, ptr %buffer, i64 0, i32 9
  %data = load ptr, ptr %data.at
  %block.address = select i1 %there, ptr %data, ptr null
  ret ptr %block.address

other:
  %is.buffer = call i1 @is_a(ptr %buffer, ptr @allocated_buffer)
  br i1 %is.buffer, label %buffer.own, label %no

buffer.own:
  %address = call ptr @buffer_address(ptr %buffer, i64 %generation)
  ret ptr %address

no:
  ret ptr null
}

; Where the memory of an AllocatedBuffer is: address of its handle, and its offset.
define internal ptr @buffer_address(ptr %buffer, i64 %generation) {
begin:
  %memory = call ptr @field(ptr %buffer, ptr @buffer_memory)
  %is.memory = call i1 @is_a(ptr %memory, ptr @device_memory)
  br i1 %is.memory, label %in.memory, label %no

in.memory:
  %handle = call ptr @field(ptr %memory, ptr @memory_handle)
  %is.host = call i1 @is_a(ptr %handle, ptr @host_memory)
  br i1 %is.host, label %in.handle, label %no

in.handle:
  %made = call ptr @field(ptr %buffer, ptr @buffer_generation)
  %offset = call ptr @field(ptr %memory, ptr @memory_offset)
  %base = call ptr @field(ptr %handle, ptr @host_address)
  %int.1 = call i1 @is_a(ptr %made, ptr @int)
  %int.2 = call i1 @is_a(ptr %offset, ptr @int)
  %int.3 = call i1 @is_a(ptr %base, ptr @int)
  %ints = and i1 %int.1, %int.2
  %all.ints = and i1 %ints, %int.3
  br i1 %all.ints, label %numbers, label %no

numbers:
  %birth = call i64 @PyLong_AsLongLong(ptr %made)
  %there = icmp eq i64 %birth, %generation
  br i1 %there, label %sum, label %no

sum:
  %start = call i64 @PyLong_AsLongLong(ptr %base)
  %skip = call i64 @PyLong_AsLongLong(ptr %offset)
  %number = add i64 %start, %skip
  %address = inttoptr i64 %number to ptr
  ret ptr %address

no:
  ret ptr null
}

; Addresses of all arguments, and the buffers that must be kept (null for NumPy's, which the caller
; keeps); false if the long way must be gone.
define internal i1 @addresses(ptr %plan, ptr %values, i64 %count, ptr %table, ptr %owners) {
begin:
  %parameters.at = getelementptr %Plan, ptr %plan, i64 0, i32 1
  %parameters = load ptr, ptr %parameters.at
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %found ]
  %end = icmp eq i64 %index, %count
  br i1 %end, label %yes, label %one

one:
  %value.at = getelementptr ptr, ptr %values, i64 %index
  %value = load ptr, ptr %value.at
  %owner.at = getelementptr ptr, ptr %owners, i64 %index
  store ptr null, ptr %owner.at
  %parameter = getelementptr %Parameter, ptr %parameters, i64 %index
  %is.numpy = call i1 @is_a(ptr %value, ptr @ndarray)
  br i1 %is.numpy, label %numpy, label %other

numpy:
  %numpy.address = call ptr @numpy_address(ptr %value, ptr %parameter)
  br label %both

other:
  %is.device = call i1 @is_a(ptr %value, ptr @device_array)
  br i1 %is.device, label %device, label %no

device:
  %device.address = call ptr @device_address(ptr %value, ptr %parameter, ptr %plan, ptr %owner.at)
  br label %both

both:
  %address = phi ptr [ %numpy.address, %numpy ], [ %device.address, %device ]
  %ok = icmp ne ptr %address, null
  br i1 %ok, label %found, label %no

found:
  %place = getelementptr ptr, ptr %table, i64 %index
  store ptr %address, ptr %place
  %after = add i64 %index, 1
  br label %next

yes:
  ret i1 true

no:
  ret i1 false
}

; Refers to each of some objects, or gives the references back; nulls are passed over.
define internal void @hold(ptr %objects, i64 %count, i1 %release) {
begin:
  br label %next

next:
  %index = phi i64 [ 0, %begin ], [ %after, %take ], [ %after, %give ]
  %end = icmp eq i64 %index, %count
  br i1 %end, label %done, label %one

one:
  %at = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %at
  %after = add i64 %index, 1
  br i1 %release, label %give, label %take

take:
  call void @Py_IncRef(ptr %object)
  br label %next

give:
  call void @Py_DecRef(ptr %object)
  br label %next

done:
  ret void
}
