"""Grades of expense: how many simple operations one element of an opcode is, about.

Each opcode has one in its `OpDef`, and every model of costs reads that, at a scale of its own. They
are not times: what an operation takes is up to the device.
"""

FREE = 0
"""What is named or known, not computed: parameters, constants, broadcasts."""

INSTRUCTION = 1
"""One vector instruction, of integers as of floats."""

PAIR = 2
"""Two of them, in some types or on some processors: a magnitude, a limit on both sides."""

SEQUENCE = 3
"""A few: comparisons, selections, shuffles."""

DIVISION = 4
"""One that the next cannot overlap; what is of this grade or above counts as expensive."""

MOVE = 10
"""An element that is read at one place and written at another, far from it."""

FUNCTION = 10
"""A polynomial with what comes before and after it, or a loop of a few iterations."""

COMPUTATION = 20
"""A call of a computation of scalars."""

ORDERING = 1000
"""An element's way to its place among all others."""
