"""Machines of several devices whose time is computed, not spent."""
