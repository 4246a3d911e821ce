"""The former names of `runtime.fast_call`, for plugins that were written with them."""

from xladev.runtime.fast_call import FastCall as Door
from xladev.runtime.fast_call import FastCallSpec as Doorway
from xladev.runtime.fast_call import TemporaryAllocation as Allocation

__all__ = ["Allocation", "Door", "Doorway"]
