"""The device contract, and the runtime that drives every device through it."""
