"""A compiled program: thunks on slots, its checks and its file."""
