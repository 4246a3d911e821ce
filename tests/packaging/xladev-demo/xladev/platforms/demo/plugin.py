"""The entry point of the platform `demo`, which has no device: enough to be found and imported."""

import pluggy

hookimpl = pluggy.HookimplMarker("xladev")


@hookimpl
def xladev_platforms() -> list[object]:
    """No platform: this distribution only shows where one lives."""
    return []
