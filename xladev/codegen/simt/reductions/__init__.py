"""Reductions and accumulations over rows, columns and blocks, and programs of rows."""
