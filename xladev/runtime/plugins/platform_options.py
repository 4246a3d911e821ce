"""Options of single platforms: which there are, and whether those given are among them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from difflib import get_close_matches

from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.errors import OptionError, XladevError
from xladev.runtime.plugins.registered_platform import RegisteredPlatform


def declared_options(platforms: Iterable[RegisteredPlatform]) -> dict[str, PlatformOption]:
    """What platforms declare, as `platform.key`; a platform that fails to say is left out."""
    found: dict[str, PlatformOption] = {}
    for platform in platforms:
        with contextlib.suppress(XladevError):
            found |= {f"{platform.name}.{o.key}": o for o in platform.options() or ()}
    return found


def check_platform_options(
    options: CompileOptions, platforms: Iterable[RegisteredPlatform]
) -> None:
    """Checks the options of single platforms, also of those that take no part.

    Args:
        options: whose `extras` are checked.
        platforms: all that there are.

    Raises:
        OptionError: there is no such platform or option, or a value is of another type.
        XladevError: the platform cannot say which options it has.
    """
    if not options.extras:
        return
    known = {p.name: p for p in platforms}
    for name in dict(options.extras):
        platform, _, key = name.partition(".")
        if platform not in known:
            raise _unknown(name, f"there is no platform {platform!r}", known.values())
        own = known[platform].options()
        if own is None:
            continue
        option = next((o for o in own if o.key == key), None)
        if option is None:
            has = ", ".join(o.key for o in own) or "no options of its own"
            raise _unknown(name, f"platform {platform!r} has {has}", known.values())
        options.extra(platform, key, option.default)


def _unknown(name: str, why: str, platforms: Iterable[RegisteredPlatform]) -> OptionError:
    near = get_close_matches(name, declared_options(platforms), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`xladev options` lists all options"
    return OptionError(f"unknown option {name!r}", why=why, hint=hint)
