"""Recipes of random instructions, by family of opcodes."""
