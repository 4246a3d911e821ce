"""A kernel plan: the steps of a program of kernels, its checks and its file."""
