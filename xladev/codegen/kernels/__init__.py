"""Kernels for processors that run loops: one function per KernelSpec."""
