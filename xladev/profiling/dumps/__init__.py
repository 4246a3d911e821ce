"""Pages of a folder of dumps: an index of all, and what each pass changed."""
