"""Programs of this folder run in poisoned memory."""

from tests.tools.poisoned import poisoned

__all__ = ["poisoned"]
