; What the ABI of 32-bit ARM calls __aeabi_..., for processors that have no instruction for it.
; Floats are passed in integer registers, whatever the program itself does.

define arm_aapcscc { i64, i64 } @__aeabi_uldivmod(i64 %n, i64 %d) #0 {
  %both = call { i64, i64 } @divide(i64 %n, i64 %d)
  ret { i64, i64 } %both
}

define arm_aapcscc { i64, i64 } @__aeabi_ldivmod(i64 %n, i64 %d) #0 {
  %positive.n = call i64 @llvm.abs.i64(i64 %n, i1 false)
  %positive.d = call i64 @llvm.abs.i64(i64 %d, i1 false)
  %both = call { i64, i64 } @divide(i64 %positive.n, i64 %positive.d)
  %q = extractvalue { i64, i64 } %both, 0
  %r = extractvalue { i64, i64 } %both, 1
  %signs = xor i64 %n, %d
  %q.flipped = sub i64 0, %q
  %r.flipped = sub i64 0, %r
  %q.negative = icmp slt i64 %signs, 0
  %r.negative = icmp slt i64 %n, 0
  %q.signed = select i1 %q.negative, i64 %q.flipped, i64 %q
  %r.signed = select i1 %r.negative, i64 %r.flipped, i64 %r
  %first = insertvalue { i64, i64 } poison, i64 %q.signed, 0
  %result = insertvalue { i64, i64 } %first, i64 %r.signed, 1
  ret { i64, i64 } %result
}

define arm_aapcscc i32 @__aeabi_uidiv(i32 %n, i32 %d) #0 {
  %both = call { i32, i32 } @divide_short(i32 %n, i32 %d)
  %q = extractvalue { i32, i32 } %both, 0
  ret i32 %q
}

define arm_aapcscc { i32, i32 } @__aeabi_uidivmod(i32 %n, i32 %d) #0 {
  %both = call { i32, i32 } @divide_short(i32 %n, i32 %d)
  ret { i32, i32 } %both
}

define arm_aapcscc i32 @__aeabi_idiv(i32 %n, i32 %d) #0 {
  %both = call { i32, i32 } @divide_signed(i32 %n, i32 %d)
  %q = extractvalue { i32, i32 } %both, 0
  ret i32 %q
}

define arm_aapcscc { i32, i32 } @__aeabi_idivmod(i32 %n, i32 %d) #0 {
  %both = call { i32, i32 } @divide_signed(i32 %n, i32 %d)
  ret { i32, i32 } %both
}

; the high word times 2**32 is exact, and so is the low one: one rounding
define arm_aapcscc double @__aeabi_l2d(i64 %x) #0 {
  %shifted = ashr i64 %x, 32
  %high = trunc i64 %shifted to i32
  %number = sitofp i32 %high to double
  %result = call double @joined(double %number, i64 %x)
  ret double %result
}

define arm_aapcscc double @__aeabi_ul2d(i64 %x) #0 {
  %shifted = lshr i64 %x, 32
  %high = trunc i64 %shifted to i32
  %number = uitofp i32 %high to double
  %result = call double @joined(double %number, i64 %x)
  ret double %result
}

define arm_aapcscc float @__aeabi_l2f(i64 %x) #0 {
  %magnitude = call i64 @llvm.abs.i64(i64 %x, i1 false)
  %kept = call i64 @sticky(i64 %x, i64 %magnitude)
  %shifted = ashr i64 %kept, 32
  %high = trunc i64 %shifted to i32
  %number = sitofp i32 %high to double
  %exact = call double @joined(double %number, i64 %kept)
  %result = fptrunc double %exact to float
  ret float %result
}

define arm_aapcscc float @__aeabi_ul2f(i64 %x) #0 {
  %kept = call i64 @sticky(i64 %x, i64 %x)
  %shifted = lshr i64 %kept, 32
  %high = trunc i64 %shifted to i32
  %number = uitofp i32 %high to double
  %exact = call double @joined(double %number, i64 %kept)
  %result = fptrunc double %exact to float
  ret float %result
}

define arm_aapcscc i64 @__aeabi_d2ulz(double %x) #0 {
  %result = call i64 @whole(double %x)
  ret i64 %result
}

define arm_aapcscc i64 @__aeabi_f2ulz(float %x) #0 {
  %wide = fpext float %x to double
  %result = call i64 @whole(double %wide)
  ret i64 %result
}

define arm_aapcscc i64 @__aeabi_d2lz(double %x) #0 {
  %result = call i64 @signed_whole(double %x)
  ret i64 %result
}

define arm_aapcscc i64 @__aeabi_f2lz(float %x) #0 {
  %wide = fpext float %x to double
  %result = call i64 @signed_whole(double %wide)
  ret i64 %result
}

; bit by bit, from the highest one that the quotient can have
define internal { i64, i64 } @divide(i64 %n, i64 %d) #0 {
entry:
  %is.less = icmp ult i64 %n, %d
  br i1 %is.less, label %done, label %begin
begin:
  %n.zeros = call i64 @llvm.ctlz.i64(i64 %n, i1 false)
  %d.zeros = call i64 @llvm.ctlz.i64(i64 %d, i1 false)
  %apart = sub i64 %d.zeros, %n.zeros
  %bits = and i64 %apart, 63
  %top = shl i64 %d, %bits
  %last = trunc i64 %bits to i32
  br label %loop
loop:
  %left = phi i32 [ %last, %begin ], [ %left.next, %loop ]
  %part = phi i64 [ %top, %begin ], [ %part.next, %loop ]
  %rest = phi i64 [ %n, %begin ], [ %rest.next, %loop ]
  %q = phi i64 [ 0, %begin ], [ %q.next, %loop ]
  %fits = icmp uge i64 %rest, %part
  %taken = sub i64 %rest, %part
  %rest.next = select i1 %fits, i64 %taken, i64 %rest
  %bit = zext i1 %fits to i64
  %doubled = shl i64 %q, 1
  %q.next = or i64 %doubled, %bit
  %part.next = lshr i64 %part, 1
  %left.next = add i32 %left, -1
  %is.last = icmp eq i32 %left, 0
  br i1 %is.last, label %done, label %loop
done:
  %quotient = phi i64 [ 0, %entry ], [ %q.next, %loop ]
  %remainder = phi i64 [ %n, %entry ], [ %rest.next, %loop ]
  %first = insertvalue { i64, i64 } poison, i64 %quotient, 0
  %result = insertvalue { i64, i64 } %first, i64 %remainder, 1
  ret { i64, i64 } %result
}

define internal { i32, i32 } @divide_short(i32 %n, i32 %d) #0 {
entry:
  %is.less = icmp ult i32 %n, %d
  br i1 %is.less, label %done, label %begin
begin:
  %n.zeros = call i32 @llvm.ctlz.i32(i32 %n, i1 false)
  %d.zeros = call i32 @llvm.ctlz.i32(i32 %d, i1 false)
  %apart = sub i32 %d.zeros, %n.zeros
  %last = and i32 %apart, 31
  %top = shl i32 %d, %last
  br label %loop
loop:
  %left = phi i32 [ %last, %begin ], [ %left.next, %loop ]
  %part = phi i32 [ %top, %begin ], [ %part.next, %loop ]
  %rest = phi i32 [ %n, %begin ], [ %rest.next, %loop ]
  %q = phi i32 [ 0, %begin ], [ %q.next, %loop ]
  %fits = icmp uge i32 %rest, %part
  %taken = sub i32 %rest, %part
  %rest.next = select i1 %fits, i32 %taken, i32 %rest
  %bit = zext i1 %fits to i32
  %doubled = shl i32 %q, 1
  %q.next = or i32 %doubled, %bit
  %part.next = lshr i32 %part, 1
  %left.next = add i32 %left, -1
  %is.last = icmp eq i32 %left, 0
  br i1 %is.last, label %done, label %loop
done:
  %quotient = phi i32 [ 0, %entry ], [ %q.next, %loop ]
  %remainder = phi i32 [ %n, %entry ], [ %rest.next, %loop ]
  %first = insertvalue { i32, i32 } poison, i32 %quotient, 0
  %result = insertvalue { i32, i32 } %first, i32 %remainder, 1
  ret { i32, i32 } %result
}

define internal { i32, i32 } @divide_signed(i32 %n, i32 %d) #0 {
  %positive.n = call i32 @llvm.abs.i32(i32 %n, i1 false)
  %positive.d = call i32 @llvm.abs.i32(i32 %d, i1 false)
  %both = call { i32, i32 } @divide_short(i32 %positive.n, i32 %positive.d)
  %q = extractvalue { i32, i32 } %both, 0
  %r = extractvalue { i32, i32 } %both, 1
  %signs = xor i32 %n, %d
  %q.flipped = sub i32 0, %q
  %r.flipped = sub i32 0, %r
  %q.negative = icmp slt i32 %signs, 0
  %r.negative = icmp slt i32 %n, 0
  %q.signed = select i1 %q.negative, i32 %q.flipped, i32 %q
  %r.signed = select i1 %r.negative, i32 %r.flipped, i32 %r
  %first = insertvalue { i32, i32 } poison, i32 %q.signed, 0
  %result = insertvalue { i32, i32 } %first, i32 %r.signed, 1
  ret { i32, i32 } %result
}

define internal double @joined(double %high, i64 %x) #0 {
  %word = trunc i64 %x to i32
  %low = uitofp i32 %word to double
  %scaled = fmul double %high, 0x41F0000000000000
  %result = fadd double %scaled, %low
  ret double %result
}

; more than 53 bits: bit 11 stands for all below, far from where a float is rounded
define internal i64 @sticky(i64 %x, i64 %magnitude) #0 {
  %is.long = icmp ugt i64 %magnitude, 9007199254740992
  %low = and i64 %x, 2047
  %is.inexact = icmp ne i64 %low, 0
  %cut = and i64 %x, -2048
  %marked = or i64 %cut, 2048
  %long = select i1 %is.inexact, i64 %marked, i64 %cut
  %result = select i1 %is.long, i64 %long, i64 %x
  ret i64 %result
}

define internal i64 @whole(double %x) #0 {
  %upper = fmul double %x, 0x3DF0000000000000
  %high = fptoui double %upper to i32
  %number = uitofp i32 %high to double
  %taken = fmul double %number, 0x41F0000000000000
  %rest = fsub double %x, %taken
  %low = fptoui double %rest to i32
  %wide = zext i32 %high to i64
  %shifted = shl i64 %wide, 32
  %lower = zext i32 %low to i64
  %result = or i64 %shifted, %lower
  ret i64 %result
}

define internal i64 @signed_whole(double %x) #0 {
  %magnitude = call double @llvm.fabs.f64(double %x)
  %positive = call i64 @whole(double %magnitude)
  %flipped = sub i64 0, %positive
  %is.negative = fcmp olt double %x, 0.0
  %result = select i1 %is.negative, i64 %flipped, i64 %positive
  ret i64 %result
}
