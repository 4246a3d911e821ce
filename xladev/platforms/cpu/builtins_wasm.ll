; What LLVM calls for 128-bit integers on WebAssembly, which has 64-bit ones.

define i128 @__multi3(i128 %x, i128 %y) #0 {
  %x.low = trunc i128 %x to i64
  %y.low = trunc i128 %y to i64
  %x.shifted = lshr i128 %x, 64
  %y.shifted = lshr i128 %y, 64
  %x.high = trunc i128 %x.shifted to i64
  %y.high = trunc i128 %y.shifted to i64
  %a = and i64 %x.low, 4294967295
  %b = lshr i64 %x.low, 32
  %c = and i64 %y.low, 4294967295
  %d = lshr i64 %y.low, 32
  %ac = mul i64 %a, %c
  %ad = mul i64 %a, %d
  %bc = mul i64 %b, %c
  %bd = mul i64 %b, %d
  %ac.upper = lshr i64 %ac, 32
  %middle = add i64 %ad, %ac.upper
  %middle.lower = and i64 %middle, 4294967295
  %middle.upper = lshr i64 %middle, 32
  %second = add i64 %bc, %middle.lower
  %second.upper = lshr i64 %second, 32
  %carried = add i64 %middle.upper, %second.upper
  %upper = add i64 %bd, %carried
  %crossed = mul i64 %x.low, %y.high
  %other = mul i64 %x.high, %y.low
  %sum = add i64 %crossed, %other
  %high = add i64 %upper, %sum
  %low = mul i64 %x.low, %y.low
  %result = call i128 @pair(i64 %low, i64 %high)
  ret i128 %result
}

define i128 @__ashlti3(i128 %x, i32 %count) #0 {
  %low = trunc i128 %x to i64
  %shifted = lshr i128 %x, 64
  %high = trunc i128 %shifted to i64
  %bits = zext i32 %count to i64
  %within = and i64 %bits, 63
  %moved.low = shl i64 %low, %within
  %moved.high = call i64 @llvm.fshl.i64(i64 %high, i64 %low, i64 %within)
  %is.far = icmp ugt i64 %bits, 63
  %new.low = select i1 %is.far, i64 0, i64 %moved.low
  %new.high = select i1 %is.far, i64 %moved.low, i64 %moved.high
  %result = call i128 @pair(i64 %new.low, i64 %new.high)
  ret i128 %result
}

define i128 @__lshrti3(i128 %x, i32 %count) #0 {
  %low = trunc i128 %x to i64
  %shifted = lshr i128 %x, 64
  %high = trunc i128 %shifted to i64
  %bits = zext i32 %count to i64
  %within = and i64 %bits, 63
  %moved.high = lshr i64 %high, %within
  %moved.low = call i64 @llvm.fshr.i64(i64 %high, i64 %low, i64 %within)
  %is.far = icmp ugt i64 %bits, 63
  %new.low = select i1 %is.far, i64 %moved.high, i64 %moved.low
  %new.high = select i1 %is.far, i64 0, i64 %moved.high
  %result = call i128 @pair(i64 %new.low, i64 %new.high)
  ret i128 %result
}

define i128 @__ashrti3(i128 %x, i32 %count) #0 {
  %low = trunc i128 %x to i64
  %shifted = lshr i128 %x, 64
  %high = trunc i128 %shifted to i64
  %bits = zext i32 %count to i64
  %within = and i64 %bits, 63
  %sign = ashr i64 %high, 63
  %moved.high = ashr i64 %high, %within
  %moved.low = call i64 @llvm.fshr.i64(i64 %high, i64 %low, i64 %within)
  %is.far = icmp ugt i64 %bits, 63
  %new.low = select i1 %is.far, i64 %moved.high, i64 %moved.low
  %new.high = select i1 %is.far, i64 %sign, i64 %moved.high
  %result = call i128 @pair(i64 %new.low, i64 %new.high)
  ret i128 %result
}

define internal i128 @pair(i64 %low, i64 %high) #0 {
  %lower = zext i64 %low to i128
  %wide = zext i64 %high to i128
  %upper = shl i128 %wide, 64
  %result = or i128 %upper, %lower
  ret i128 %result
}
