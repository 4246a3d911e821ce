"""Kinds of kernels that are no reductions: loops, moves, scatters, sorts, products, attention."""
