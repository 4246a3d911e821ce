"""Mathematical functions as LLVM IR, without a C library: f32 and f64, any lane count."""
