"""LLVM code of the CPU's kernels: loop nests, microkernels and how threads share them."""
