"""Buffer assignment: which array is where, and for how long."""
