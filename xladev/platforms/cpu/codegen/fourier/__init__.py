"""Discrete Fourier transforms: a plan when compiled, and microkernels that carry it out."""
