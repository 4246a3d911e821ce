"""The host's side: threads, signals and the end of the process."""
