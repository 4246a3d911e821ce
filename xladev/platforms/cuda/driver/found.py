"""Which of NVIDIA's libraries this machine has, by `cuda.pathfinder`, which comes with CuPy.

cuDNN is asked for through its front end, a Python package that finds the library itself.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from xladev.instrument import pass_interruption
from xladev.platforms.cuda.driver.interface import LibraryError

PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "cublasLt": "nvidia-cublas",
        "cublas": "nvidia-cublas",
        "cudnn": "xladev-cuda[cudnn]",
        "cusolver": "nvidia-cusolver",
        "cufft": "nvidia-cufft",
        "nccl": "nvidia-nccl-cu13",
    }
)
"""Where each library comes from, besides the CUDA toolkit."""


@cache
def missing(name: str) -> str:
    """Why a library cannot be used; empty if it can, and then it is loaded."""
    if name == "cudnn":
        return front_end()[1]
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        return "cuda.pathfinder is not installed: pip install xladev-cuda"
    try:
        load_nvidia_dynamic_lib(name)
    except (DynamicLibNotFoundError, OSError, RuntimeError) as e:
        pass_interruption(e)
        first = (str(e).strip().splitlines() or [type(e).__name__])[0].split(":")[0]
        return f"{first}: pip install {PACKAGES[name]}"
    return ""


@cache
def front_end() -> tuple[Any, str]:
    """cuDNN's front end, or None and why it, or the library, cannot be used."""
    hint = f"pip install '{PACKAGES['cudnn']}'"
    try:
        cudnn: Any = importlib.import_module("cudnn")
    except (ImportError, OSError) as e:
        pass_interruption(e)
        installed = not isinstance(e, ModuleNotFoundError)
        what = "cannot be loaded" if installed else "is not installed"
        return None, f"its front end {what}: {hint}"
    try:
        cudnn.backend_version()
    except RuntimeError:
        return None, f"the library is not installed: {hint}"
    return cudnn, ""


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
