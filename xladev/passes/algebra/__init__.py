"""Rules of the algebraic simplifier, by family; see `passes/algebraic_simplifier.py`."""
