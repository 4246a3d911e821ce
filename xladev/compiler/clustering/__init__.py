"""Clusters of instructions that are compiled together, where a program is not compiled whole."""
