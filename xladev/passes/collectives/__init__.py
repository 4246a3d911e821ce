"""Passes on collectives: few large ones cost less than many small ones."""
