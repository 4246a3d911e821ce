"""Kernels run on the emulator of the CUDA platform, and become PTX where there is ptxas."""

from tests.unit.platforms.cuda.conftest import assembled, emulated

__all__ = ["assembled", "emulated"]
