"""Compiled programs on disk, and what makes them stale."""
