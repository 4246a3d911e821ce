"""One element of an HLO instruction at a time: index mappings, reductions, scalar computations."""
