"""What `torch.compile(..., mode=, options=)` says, as xladev's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xladev.compiler.options import CompileOptions
from xladev.errors import OptionError

MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"optimization_level": 3},
    "max-autotune-no-cudagraphs": {"optimization_level": 3},
}
"""What each mode of torch.compile changes."""

SIZES_SPECIALISED = 8
"""A graph with symbolic sizes is compiled for so many sets of sizes; others run in torch."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How graphs are compiled.

    Attributes:
        platform: platform or device; None for the one of highest priority.
        options: xladev's.
        random_of_torch: random numbers are drawn by torch's own kernels, so that they equal those
            of eager mode.
        sizes: for how many sets of sizes a graph with symbolic ones is compiled.
    """

    platform: str | None = None
    options: CompileOptions | None = None
    random_of_torch: bool = False
    sizes: int = SIZES_SPECIALISED


_OWN = {"platform": str, "fallback_random": bool, "specialised_sizes": int}


def settings_of(mode: str | None, options: Mapping[str, Any] | None) -> Settings:
    """Settings from what the user gave to torch.compile.

    Args:
        mode: one of `MODES`; None for ``default``.
        options: ``platform``, ``fallback_random``, ``specialised_sizes``, and any option of xladev
            (docs/reference/options.md).

    Raises:
        OptionError: an unknown mode or option, or a value of the wrong type.
    """
    given = dict(options or {})
    own = {key: _checked(key, given.pop(key)) for key in _OWN if key in given}
    compile_options = CompileOptions.from_environment()
    for key, value in {**_of_mode(mode), **given}.items():
        compile_options = compile_options.with_option(f"{key}={_text(value)}")
    return Settings(
        platform=own.get("platform"),
        options=compile_options,
        random_of_torch=own.get("fallback_random", False),
        sizes=own.get("specialised_sizes", SIZES_SPECIALISED),
    )


def _of_mode(mode: str | None) -> Mapping[str, Any]:
    found = MODES.get(mode or "default")
    if found is None:
        raise OptionError(f"mode {mode!r} is none of torch.compile's", hint=f"one of {list(MODES)}")
    return found


def _checked(key: str, value: Any) -> Any:
    wanted = _OWN[key]
    if not isinstance(value, wanted):
        raise OptionError(f"option {key} is {value!r}", why=f"it takes a {wanted.__name__}")
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
