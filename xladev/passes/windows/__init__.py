"""Windows of a cost that does not grow with their size; see `passes/reduce_window_rewriter.py`."""
