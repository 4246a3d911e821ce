"""Orders of dimensions in memory that kernels of this platform are fastest with."""
