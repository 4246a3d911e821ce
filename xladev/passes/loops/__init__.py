"""What passes on loops and branches share; see `passes/while_simplifier.py` and its siblings."""
