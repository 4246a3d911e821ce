"""Blocks of threads on the host, with every access, race and barrier checked."""
