"""Complex functions as LLVM IR: pairs of f64, guarded against overflow; c64 is computed in f64."""
