"""Kernels that sort, and those that select the largest elements."""
