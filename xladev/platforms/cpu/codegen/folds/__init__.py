"""Kernels that fold: rows, columns and all elements."""
