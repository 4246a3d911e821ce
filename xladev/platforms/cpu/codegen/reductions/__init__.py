"""Kernels that reduce: rows, columns and all elements."""
