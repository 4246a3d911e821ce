"""Launches: arguments, the run of a program or a plan, and its errors."""
