"""Kernels for devices whose threads run in blocks, of any target that says what it has."""
