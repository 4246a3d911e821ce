"""What ``jax.jit(f, compiler_options={...})`` asks for, as xladev's options."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.options import OPTION_DOCS, CompileOptions
from xladev.errors import OptionError
from xladev.frontends.jax.compile_options import Override
from xladev.instrument import logger

_OF_XLA = "xla_"
_NAMES = tuple(
    name
    for name in OPTION_DOCS
    if name not in ("num_replicas", "num_partitions", "device_assignment", "extras")
)
"""Options that a program may name; the others JAX says itself, or are named ``platform.key``."""

_log = logger("compile")


def overridden(
    options: CompileOptions, overrides: Sequence[tuple[str, Override]]
) -> CompileOptions:
    """The options with those changed that a program names.

    XLA's own (``xla_...``) steer a compiler that is not here: they are taken and change nothing.

    Raises:
        OptionError: a name that is neither XLA's nor xladev's (in the words that JAX's users know
            from XLA), or a value of wrong type.
    """
    for name, value in overrides:
        if name.startswith(_OF_XLA):
            _log.info("the option %s is XLA's, and changes nothing here", name)
            continue
        if "." not in name and name not in _NAMES:
            raise OptionError(
                f"No such compile option: {name!r}",
                hint=f"xladev's are {', '.join(_NAMES)}",
            )
        options = options.with_option(f"{name}={_spelled(value)}")
    return options


def _spelled(value: Override) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
