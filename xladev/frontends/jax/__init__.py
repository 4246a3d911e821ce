"""Every xladev platform as a JAX device, through a PJRT plugin.

`initialize` is what JAX finds by the entry point group ``jax_plugins``. The C library of the
distribution xladev-pjrt is the plugin; it calls `engine` for what needs Python.
"""

from __future__ import annotations


def initialize() -> None:
    """Registers a JAX platform for each xladev platform; JAX calls it when it needs platforms."""
    from xladev.frontends.jax.plugin import register_platforms

    register_platforms()
