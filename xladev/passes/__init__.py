"""Passes: HLO to HLO, independent of any target; one pass per file, all named in `registry.py`."""
