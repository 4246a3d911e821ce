"""LAPACK on the host: where it comes from, what its routines take, and its threads."""
