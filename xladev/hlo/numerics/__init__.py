"""Arithmetic that NumPy lacks or rounds differently; the evaluator's building blocks."""
