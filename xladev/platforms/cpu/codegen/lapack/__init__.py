"""Kernels that call LAPACK: one matrix of a stack at a time, in parts that threads share."""
