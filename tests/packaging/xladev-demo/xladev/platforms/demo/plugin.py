"""The entry point of the platform `demo`, which has no device: enough to be found and imported."""

from collections.abc import Sequence

from xladev.runtime.hookspecs import PlatformSpec, hookimpl


@hookimpl
def xladev_platforms() -> Sequence[PlatformSpec]:
    """No platform: this distribution only shows where one lives."""
    return []
