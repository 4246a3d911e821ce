"""Decompositions of stacks of matrices in plain HLO, as custom calls and other expansions want."""
