"""Rules of the dynamic padder, by family of opcodes; `dynamic_padder.py` applies them."""
