"""Shardings: meshes of devices, their axes, and which part of an array each device holds."""
