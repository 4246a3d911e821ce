"""Expansions: what an opcode means in simpler opcodes; one per file, listed in `expanders.py`."""
