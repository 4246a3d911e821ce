"""Which JAX platform means which xladev platform."""

from __future__ import annotations

from functools import cache

from xladev.runtime.registry import current_registry

DEFAULT = "xladev"
"""The JAX platform that means the xladev platform of highest priority."""

_JAX_OWN = frozenset({"cpu", "gpu", "cuda", "rocm", "tpu", "metal", "METAL", "oneapi", "neuron"})


def jax_name(platform: str) -> str:
    """The name of an xladev platform in JAX: its own where JAX has no platform of that name."""
    return f"xladev_{platform}" if platform in _JAX_OWN or platform == DEFAULT else platform


def jax_platform_names() -> dict[str, str | None]:
    """xladev's platforms by their names in JAX; None means the one of highest priority."""
    named = {jax_name(p.name): p.name for p in current_registry().platforms()}
    return {**named, DEFAULT: None}


@cache
def has_addressable_memory(name: str) -> bool:
    """True if a name in JAX means a platform of xladev whose memory the host addresses."""
    names = jax_platform_names()
    if name not in names:
        return False
    return current_registry().platform(names[name]).describe().host_addressable
