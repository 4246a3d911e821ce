"""Timelines: what ran when, as Chrome trace files that viewers and SQL read."""

from xladev.profiling.timeline.session import Profile, Timeline, profile

__all__ = ["Profile", "Timeline", "profile"]
