"""Which device runs which instruction of a program of several devices, and why."""
