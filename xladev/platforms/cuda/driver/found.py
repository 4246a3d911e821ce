"""Which of NVIDIA's libraries this machine has, by `cuda.pathfinder`, which comes with CuPy."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from xladev.platforms.cuda.driver.interface import LibraryError

PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "cublasLt": "nvidia-cublas",
        "cublas": "nvidia-cublas",
        "cusolver": "nvidia-cusolver",
        "cufft": "nvidia-cufft",
        "nccl": "nvidia-nccl-cu13",
    }
)
"""Where each library comes from, besides the CUDA toolkit."""


@cache
def missing(name: str) -> str:
    """Why a library cannot be used; empty if it can, and then it is loaded."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        return "cuda.pathfinder is not installed: pip install xladev-cuda"
    try:
        load_nvidia_dynamic_lib(name)
    except (DynamicLibNotFoundError, OSError, RuntimeError) as e:
        first = (str(e).strip().splitlines() or [type(e).__name__])[0].split(":")[0]
        return f"{first}: pip install {PACKAGES[name]}"
    return ""


def loaded(name: str) -> ctypes.CDLL:
    """A library, for calls by ctypes.

    Raises:
        LibraryError: it is missing.
    """
    why = missing(name)
    if why:
        raise LibraryError(name, "NOT_FOUND", why)
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
