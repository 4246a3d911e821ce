"""Kinds of kernels that are no folds: loops, moves, scatters, sorts, products, attention."""
