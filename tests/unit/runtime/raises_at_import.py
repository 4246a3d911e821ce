"""A plugin whose import fails."""

raise ImportError("libnull.so.7: cannot open shared object file")
