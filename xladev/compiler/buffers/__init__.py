"""Buffer assignment: which array lies where, and for how long."""
