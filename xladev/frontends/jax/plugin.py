"""Registers xladev's platforms with JAX."""

from __future__ import annotations

import os
from functools import cache, partial

from xladev.errors import PluginError
from xladev.frontends.jax import (
    adapter,
    adapter_callbacks,
    adapter_partitioning,
    adapter_rules,
    callbacks,
    forks,
)
from xladev.frontends.jax.costs import lowered_costs
from xladev.frontends.jax.interpreter_exit import prepare_exit
from xladev.frontends.jax.library import library_path
from xladev.frontends.jax.platform_names import has_addressable_memory, jax_platform_names
from xladev.instrument import logger
from xladev.runtime.registry import current_registry
from xladev.runtime.virtual_devices import is_fixed, virtual_device_count

_log = logger("jax")

PRIORITY = -100
"""Below JAX's own CPU: never the default, unless JAX_PLATFORMS says so."""


@cache
def register_platforms() -> None:
    """Registers a JAX platform for each xladev platform; once in a process.

    Raises:
        PluginError: the library of xladev-pjrt is missing, and JAX_PLATFORMS asks for it.
    """
    names = jax_platform_names()
    try:
        path = str(library_path())
        prepare_exit()
    except PluginError as error:
        if set(os.environ.get("JAX_PLATFORMS", "").split(",")) & set(names):
            raise
        _log.debug("JAX does without xladev: %s", error)
        return
    callbacks.register()
    adapter_partitioning.register_targets()
    forks.watch_forks(adapter.keep_what_has_threads)
    adapter_callbacks.add_callbacks(names)
    adapter.add_dlpack(has_addressable_memory)
    adapter.add_persistent_cache(names)
    adapter.surround_compilations(names, forks.compiling)
    adapter.add_cost_analysis(names, lowered_costs)
    adapter.keep_host_platform()
    for jax_name, platform in names.items():
        options = partial(_client_options, platform)
        adapter.register_platform(jax_name, path, options, PRIORITY)
        adapter.add_donation(jax_name)
        adapter_rules.add_rules(jax_name)
        adapter.add_permutations(jax_name, has_addressable_memory)


def _client_options(platform: str | None) -> adapter.Options:
    """Options of a platform's client; a processor has as many devices as JAX's own CPU is told.

    `XLADEV_<PLATFORM>_DEVICES` asks for simulated devices of any platform that makes them.
    """
    options: adapter.Options = {"platform": platform or ""}
    registered = current_registry().platform(platform)
    if registered.kind == "cpu":
        count = adapter.host_device_count()
    else:
        count = virtual_device_count(registered.name) if is_fixed(registered.name) else 0
    if count:
        options["num_devices"] = count
    return options
