"""The code for divided instructions, by family of opcodes; `table.py` lists it."""
