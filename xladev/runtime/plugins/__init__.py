"""Plugins: how they are found, loaded, opened and diagnosed."""
