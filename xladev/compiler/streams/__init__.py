"""Which step runs on which stream, and what streams wait for."""
